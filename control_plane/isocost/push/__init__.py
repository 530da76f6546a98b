"""What Envoy and the filter are told: versioned snapshots, served as xDS state of the world."""
