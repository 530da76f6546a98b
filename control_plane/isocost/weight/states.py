"""The state of each node and the reason for it."""

from __future__ import annotations

from dataclasses import dataclass

from isocost.model import NodeSample, NodeState


@dataclass(frozen=True, slots=True)
class Standing:
    """A node's state with its reason code."""

    state: NodeState
    reason: str


SERVING = Standing(NodeState.SERVING, "ok")
ENGINE_DOWN = Standing(NodeState.LOST, "engine_down")
AGENT_SILENT = Standing(NodeState.LOST, "agent_silent")
UNOBSERVED = Standing(NodeState.SERVING, "no_telemetry")


def standing(sample: NodeSample | None, sample_age_s: float, lost_after_s: float) -> Standing:
    """The state of a node from its latest sample and the time since that arrived.

    A node that was written down by an operator and has no agent serves by the fleet's medians.
    """
    if sample is None:
        return UNOBSERVED
    if sample_age_s > lost_after_s:
        return AGENT_SILENT
    return SERVING if sample.engine_up else ENGINE_DOWN
