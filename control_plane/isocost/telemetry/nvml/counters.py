"""How much a hardware counter rose between two readings, though it wraps and begins anew."""

from __future__ import annotations

from isocost.model import ABSENT, UNSUPPORTED, Signal, SignalState

#: NVML's PCIe replay counter has 32 bits, NVLink's do on some generations.
_WRAP = 2.0**32


def increase(before: Signal, now: Signal) -> Signal:
    """From ``before`` to ``now``, with the state and age of ``now``; absent unless both are known.

    A counter that fell has wrapped if it was in the upper half of 32 bits and is in the lower now;
    else it began anew (the driver was loaded again), and all that it shows is new.
    """
    if SignalState.UNSUPPORTED in (before.state, now.state):
        return UNSUPPORTED
    if not (before.known and now.known):
        return ABSENT
    rise = now.value - before.value
    if rise < 0:
        wrapped = _WRAP / 2 <= before.value < _WRAP and now.value < _WRAP / 2
        rise = rise + _WRAP if wrapped else now.value
    return Signal(now.state, rise, now.age_s)
