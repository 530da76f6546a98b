"""Numbers become decisions: a weight, an entropy and a state per node. Pure arithmetic."""
