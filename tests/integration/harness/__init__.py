"""Real processes for the integration tests, and the fakes around them."""
