"""Isocost: the equal-cost load balancer for LLM inference fleets."""

__version__ = "0.1.0"
