"""Signals become numbers: free VRAM, health, entropy. Pure arithmetic, one column per signal."""
