"""Load generation and reports: what users, benchmarks and the demo measure with."""
