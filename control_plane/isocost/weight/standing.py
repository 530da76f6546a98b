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
    #: A check of it warns, as a list of nodes says.
    CHECK_WARNING = "check_warning"
    # Suspect (too many are out already), draining and ejected: what the health table found.
    HARDWARE = "hardware"
    # Suspect (too many are) and lost: it has no agent and refuses the control plane's probes.
    UNREACHABLE = "unreachable"
    # Draining.
    DRAINING = "draining"
    DRAINED = "drained"
    DRAIN_TIMED_OUT = "drain_timed_out"
    #: A list of nodes says that it is in maintenance.
    MAINTENANCE = "maintenance"
    # Lost.
    ENGINE_DOWN = "engine_down"
    AGENT_SILENT = "agent_silent"
    #: A check of it fails, as a list of nodes says.
    CHECK_CRITICAL = "check_critical"
    #: The list has no heartbeat of it, nor does its agent speak.
    CHECK_LATE = "check_late"
    #: No list names it any more, nor does its agent speak.
    WITHDRAWN = "withdrawn"
    #: Its check is good again, or it answers again, but not for long enough yet.
    CHECK_RECOVERING = "check_recovering"


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
