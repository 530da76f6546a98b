"""What a node's state is called, why it has it, and the change from one to the next."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from isocost.model import NodeState


class Reason(enum.StrEnum):
    """Why a node is in its state. A fixed list: it labels metrics."""

    # Serving.
    OK = "ok"
    #: Written down by an operator and without an agent: served by the fleet's medians.
    NO_TELEMETRY = "no_telemetry"
    # Warming.
    NEW = "new"
    RESTARTED = "restarted"
    RETURNED = "returned"
    HEALED = "healed"
    UNDRAINED = "undrained"
    # Suspect and ejected.
    FAILURES = "failures"
    NO_PROGRESS = "no_progress"
    # Suspect.
    TRIAL = "trial"
    #: It would be ejected if enough others were left.
    MIN_CAPACITY = "min_capacity"
    #: Most agents fell silent together: the way to them is broken, not the nodes.
    COLLECTOR_STALE = "collector_stale"
    #: Its entropy is far below what its open requests make, as the gateways see them.
    ANOMALY = "anomaly"
    #: Its latency rises without load.
    JITTER = "jitter"
    #: On trial: its engine says that it works, gets nowhere, and no gateway has anything there.
    IDLE_STUCK = "idle_stuck"
    # Suspect (too many are out already), draining and ejected: what the health table found.
    HARDWARE = "hardware"
    # Draining.
    DRAINING = "draining"
    DRAINED = "drained"
    DRAIN_TIMED_OUT = "drain_timed_out"
    # Lost.
    ENGINE_DOWN = "engine_down"
    AGENT_SILENT = "agent_silent"


@dataclass(frozen=True, slots=True)
class Standing:
    """A node's state with its reason code."""

    state: NodeState
    reason: Reason


@dataclass(frozen=True, slots=True)
class Transition:
    """A node's state or reason changed. ``before`` is None for a node that is new here."""

    node: str
    before: Standing | None
    after: Standing
    at_s: float
