"""Property tests run from fixed seeds, and a busy machine fails none of them."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("isocost", deadline=None, derandomize=True)
settings.load_profile("isocost")
