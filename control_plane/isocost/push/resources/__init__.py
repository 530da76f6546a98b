"""Envoy's own resources, each built from the settings as a name and a serialised Any."""
