"""NVML: read in a process of its own (child, reader), asked from the agent's (process)."""
