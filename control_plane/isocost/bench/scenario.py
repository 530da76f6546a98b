"""Scenario files: which fake node has which fault in which part of the run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import AfterValidator, ConfigDict, Field

from isocost.bench.phases import OrderedFault
from isocost.bench.rounds import Slice
from isocost.bench.target import parse_target
from isocost.config_fields import Name
from isocost.config_file import load
from isocost.config_types import StrictSettings
from isocost.errors import FieldError, RejectedError

#: What a node accepts as the length of a fault at least; a shorter part of one is left out.
_SHORTEST_S = 0.01
#: Keys of a node's order that the scenario's own times fill.
_TIMES = ("after_s", "for_s", "down_s")

#: Half a day is half of what a node accepts; the other half is the rehearsal's.
_LONGEST_S = 43_200.0

Seconds = Annotated[float, Field(ge=0, le=_LONGEST_S)]


def _is_json(value: object) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return False
    return True


def _base_url(value: str) -> str:
    try:
        url = parse_target("node", value).url.rstrip("/")
    except RejectedError:
        url = ""
    if not url or urlsplit(url).path:
        raise ValueError("must be a node's URL like http://127.0.0.1:18101")
    return url


class FaultSettings(StrictSettings):
    """One fault; further keys are its parameters, which the node checks."""

    model_config = ConfigDict(extra="allow", frozen=True, allow_inf_nan=False, strict=True)

    node: Name
    fault: Annotated[str, Field(min_length=1)]
    start_s: Seconds = 0.0
    #: None: until the run ends.
    end_s: Seconds | None = None

    @property
    def parameters(self) -> dict[str, Any]:
        return dict(self.model_extra or {})


class Scenario(StrictSettings):
    """Times are seconds from the start of the trace that is sent, or of the orders without one."""

    nodes: dict[Name, Annotated[str, AfterValidator(_base_url)]] = Field(min_length=1)
    faults: list[FaultSettings] = Field(min_length=1)

    def contradictions(self) -> list[FieldError]:
        errors = []
        for index, fault in enumerate(self.faults):
            place = f"faults.{index}"
            if fault.node not in self.nodes:
                known = ", ".join(self.nodes)
                errors.append(FieldError(f"{place}.node", fault.node, f"must be one of {known}"))
            if fault.end_s is not None and fault.end_s < fault.start_s + _SHORTEST_S:
                errors.append(FieldError(f"{place}.end_s", fault.end_s, "must be after start_s"))
            errors += [
                FieldError(f"{place}.{key}", value, "start_s and end_s say when")
                for key, value in fault.parameters.items()
                if key in _TIMES
            ]
            errors += [
                FieldError(f"{place}.{key}", value, "a node takes only what JSON has")
                for key, value in fault.parameters.items()
                if not _is_json(value)
            ]
        return errors

    def ordered(self) -> tuple[OrderedFault, ...]:
        """The faults as the report names them."""
        return tuple(
            OrderedFault(fault.node, fault.fault, fault.start_s, fault.end_s, fault.parameters)
            for fault in self.faults
        )

    def orders(self, part: Slice, *, last: bool) -> dict[str, list[dict[str, Any]]]:
        """What each node is told when ``part`` begins: its faults in that part of the trace, by
        the node's URL. In the ``last`` part a fault may outlive the trace.
        """
        orders: dict[str, list[dict[str, Any]]] = {}
        for fault in self.faults:
            start_s = max(fault.start_s, part.start_s)
            end_s = fault.end_s
            if not last:
                end_s = part.end_s if end_s is None else min(end_s, part.end_s)
            if end_s is not None and end_s - start_s < _SHORTEST_S:
                continue
            order = {
                "fault": fault.fault,
                **fault.parameters,
                "after_s": start_s - part.start_s,
                "for_s": None if end_s is None else end_s - start_s,
            }
            orders.setdefault(self.nodes[fault.node], []).append(order)
        return orders

    def whole(self) -> dict[str, list[dict[str, Any]]]:
        """Orders of all faults at once."""
        return self.orders(Slice(0.0, _LONGEST_S, ()), last=True)

    def rehearsal(self) -> dict[str, list[dict[str, Any]]]:
        """Orders of the whole scenario for so late that they are taken back before they begin."""
        return {
            url: [{**order, "after_s": order["after_s"] + _LONGEST_S} for order in orders]
            for url, orders in self.whole().items()
        }


def read_scenario(path: Path) -> Scenario:
    """ConfigError names every refused field."""
    return load(Scenario, path)
