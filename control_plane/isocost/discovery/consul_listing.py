"""An answer of Consul's health endpoint as a listing: nodes, what their checks say, refusals."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from isocost.config import ListedNodeSettings
from isocost.config_file import parse
from isocost.discovery import consul_meta
from isocost.discovery.address import canonical, is_ip
from isocost.discovery.consul_client import heartbeat_id
from isocost.discovery.listing import Check, Listed, Listing
from isocost.errors import ConfigError, DiscoveryError
from isocost.model import Node

#: What an agent tells with the heartbeat of a node whose engine is gone.
ENGINE_GONE = "the engine does not answer"

_NODE_MAINTENANCE = "_node_maintenance"
#: Of the Consul agents among themselves.
_CONSUL_AGENT = "serfHealth"
_SERVICE_MAINTENANCE = "_service_maintenance:"
#: A refused value may be long, the reason is read by people.
_MAX_REASON_LENGTH = 300
#: Of several checks the first of these that one of them says.
_GRAVEST = (Check.MAINTENANCE, Check.CRITICAL, Check.AGENT_LATE, Check.WARNING)
_ALIVE = (Check.PASSING, Check.WARNING, Check.MAINTENANCE)


class _Instance(NamedTuple):
    """A service instance without its checks: what a node is made of."""

    service_id: str
    consul_node: str
    address: str
    port: int
    meta: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        return f"{self.service_id or 'an instance'} on {self.consul_node or 'a machine'}"


class ListingReader:
    """Reads one answer after the other. What a node is rarely changes: it is read once."""

    def __init__(self) -> None:
        self._known: dict[_Instance, Node | str] = {}

    def read(self, body: bytes) -> Listing:
        """DiscoveryError: this is no answer of the health endpoint. An entry that cannot be used is
        refused alone.
        """
        try:
            entries = json.loads(body)
        except (ValueError, RecursionError) as error:
            raise DiscoveryError(f"an answer that is no JSON: {error}") from error
        if not isinstance(entries, list):
            raise DiscoveryError("an answer that is no list of service instances")
        known: dict[_Instance, Node | str] = {}
        read: list[tuple[_Instance, Listed]] = []
        refused: list[str] = []
        for entry in entries:
            instance, check = _entry(entry)
            node = known[instance] = self._known.get(instance) or _node(instance)
            if isinstance(node, str):
                refused.append(node)
            else:
                read.append((instance, Listed(node, check)))
        self._known = known
        nodes, twice = _unique(read)
        return Listing(nodes, tuple(sorted(refused + twice)))


def _entry(entry: object) -> tuple[_Instance, Check]:
    """DiscoveryError: Consul does not write such an entry, so who knows what the answer is."""
    try:
        node, service, checks = entry["Node"], entry["Service"], entry["Checks"]  # type: ignore[index]
        instance = _Instance(
            _text(service["ID"]),
            _text(node["Node"]),
            _text(service["Address"]) or _text(node["Address"]),
            _port(service["Port"]),
            tuple((_text(key), _text(value)) for key, value in sorted(_pairs(service.get("Meta")))),
        )
        return instance, _check(instance.service_id, checks or ())
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise DiscoveryError(f"an answer with an entry that is none: {error!r:.200}") from error


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"not a string: {value!r:.60}")
    return value


def _port(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"not a port: {value!r:.60}")
    return value


def _pairs(meta: Mapping[str, str] | None) -> Iterable[tuple[str, str]]:
    return () if meta is None else meta.items()


def _check(service_id: str, checks: Iterable[Mapping[str, object]]) -> Check:
    said = {_one_check(service_id, check) for check in checks}
    return next((check for check in _GRAVEST if check in said), Check.PASSING)


def _one_check(service_id: str, check: Mapping[str, object]) -> Check:
    check_id, status = _text(check["CheckID"]), _text(check["Status"])
    if status == "passing":
        return Check.PASSING
    if check_id == _NODE_MAINTENANCE or check_id.startswith(_SERVICE_MAINTENANCE):
        return Check.MAINTENANCE
    if status == "warning":
        return Check.WARNING
    # Of the output only whether the agent itself spoke: the rest may change all the time.
    if check_id == heartbeat_id(service_id) and check.get("Output") != ENGINE_GONE:
        return Check.AGENT_LATE
    # It tells of the machine's Consul agent: whose nodes speak for themselves are there.
    if check_id == _CONSUL_AGENT:
        return Check.AGENT_LATE
    return Check.CRITICAL


def _node(instance: _Instance) -> Node | str:
    """The node, or why there is none."""
    try:
        if not instance.address or not instance.port:
            lacking = "port" if instance.address else "address"
            raise ValueError(f"it has no {lacking}: neither the service nor its machine tells one")
        given, epoch = consul_meta.decode(dict(instance.meta))
        data = {
            "name": instance.service_id,
            "host": instance.consul_node,
            **given,
            "address": _endpoint(instance.address, instance.port),
        }
        settings = parse(ListedNodeSettings, data, "node")
        node = settings.node(epoch)
        return replace(node, address=_as_envoy(settings.address))
    except ConfigError as error:
        reason = "; ".join(map(str, error.fields))
    except ValueError as error:
        reason = str(error)
    return f"{instance}: {reason}"[:_MAX_REASON_LENGTH]


def _endpoint(address: str, port: int) -> str:
    bare = address.removeprefix("[").removesuffix("]")
    return f"[{bare}]:{port}" if ":" in bare else f"{bare}:{port}"


def _as_envoy(endpoint: str) -> str:
    """An address of numbers as Envoy prints it, a name as it is."""
    return canonical(endpoint) if is_ip(endpoint) else endpoint


def _unique(read: list[tuple[_Instance, Listed]]) -> tuple[tuple[Listed, ...], list[str]]:
    """Each name and each address once, and who lost it: a machine that is gone leaves its records
    behind. The one that lives wins, then the one that started last.
    """
    ranked = sorted(
        read, key=lambda item: (item[1].check not in _ALIVE, -_epoch(item[1].node), item[0])
    )
    holders: dict[str, _Instance] = {}
    kept: list[Listed] = []
    twice: list[str] = []
    for instance, listed in ranked:
        keys = (f"node {listed.node.name}", f"address {listed.node.address}")
        taken = next((key for key in keys if key in holders), None)
        if taken is None:
            holders.update(dict.fromkeys(keys, instance))
            kept.append(listed)
        else:
            twice.append(f"{instance}: {taken} belongs to {holders[taken]}"[:_MAX_REASON_LENGTH])
    return tuple(sorted(kept, key=lambda listed: listed.node.name)), twice


def _epoch(node: Node) -> int:
    return int(node.instance_id.rpartition("@")[2])
