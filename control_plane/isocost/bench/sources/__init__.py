"""Where traces come from: one module for each file format, and generators of arrivals."""
