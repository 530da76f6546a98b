"""What the gateways observed, summed over Envoys and windows. Pure arithmetic, time is given."""
