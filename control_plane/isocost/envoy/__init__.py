"""The Envoy that carries the filter: its binary, its bootstrap, and whether it can."""
