"""`isocost calibrate`: what requests cost an engine, measured and fitted."""
