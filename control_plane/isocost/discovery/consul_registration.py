"""The agent's nodes in Consul: each one instance of the service, alive by heartbeats."""

from __future__ import annotations

import asyncio
import logging
import math
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial

from isocost.config_consul import ConsulRegistrationSettings
from isocost.discovery import consul_meta
from isocost.discovery.consul_client import ConsulClient, Registration
from isocost.discovery.consul_listing import ENGINE_GONE
from isocost.discovery.retry import Retry
from isocost.errors import ConsulRefusedError, DiscoveryError
from isocost.model import Node, NodeSample

#: Two may be lost before the check is critical.
_HEARTBEATS_PER_TTL = 3
#: Heartbeats of a fleet that was started together drift apart.
_EARLIEST_SHARE = 0.8
#: What changed is told this soon: quick for a table of Consul's, nothing for a machine.
_LOOK_S = 0.5
_RETRY_LEAST_S = 0.5
#: A node whose agent is back registers again, so this only cleans up; a machine that is repaired
#: within a shift's break keeps its record.
_DEREGISTER_AFTER_S = 3600
#: A stop does not wait any longer for Consul: the check's TTL tells it as well. An agent is to be
#: gone within 2 s, and its other parts need some of that.
_STOP_S = 1.0

_NOTES = {
    "passing": "the engine answers",
    "warning": "the engine is there and late to answer",
    "critical": ENGINE_GONE,
}

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Told:
    """What Consul was told of a node last."""

    node: Node
    status: str
    #: When to tell again although nothing changed (monotonic seconds).
    due_s: float


@dataclass(slots=True)
class _Refused:
    """A node of which Consul refused something: why, and when to try again (monotonic seconds)."""

    retry: Retry
    reason: str = ""
    again_s: float = -math.inf


class ConsulRegistration:
    """Keeps nodes registered while ``run`` runs; who samples them sets ``samples``.

    A node is registered once its engine was up: before, nobody knows which instance it is.
    ConfigError: a node that Consul cannot keep.
    """

    def __init__(
        self,
        settings: ConsulRegistrationSettings,
        agent: str,
        nodes: Sequence[Node],
        rng: random.Random,
    ) -> None:
        """``nodes`` as they are configured: of any instance."""
        self._settings = settings
        self._agent = agent
        self._rng = rng
        self._told: dict[str, _Told] = {}
        self._heartbeat_s = settings.check_ttl_s / _HEARTBEATS_PER_TTL
        # So slow an answer still leaves time for the next heartbeat.
        self._timeout_s = settings.check_ttl_s * 0.6
        self._retry = self._new_retry()
        self._refused: dict[str, _Refused] = {}
        self._failing = False
        self.samples: Sequence[NodeSample] = ()
        self.follow(nodes)

    def follow(self, nodes: Sequence[Node]) -> None:
        """Keep these registered from now on, and no others. ConfigError: a node that Consul cannot
        keep; then nothing changed.
        """
        consul_meta.require_room(nodes)
        self._names = {node.name for node in nodes}

    async def run(self) -> None:
        """Register and send heartbeats until cancelled, then deregister."""
        try:
            while True:
                try:
                    async with self._client() as client:
                        await self._follow(client)
                except DiscoveryError as error:
                    if not self._failing:
                        log.warning("Consul: the nodes are not registered: %s", error)
                    self._failing = True
                except Exception:
                    # Whatever Consul answers, it must not end the agent.
                    log.exception("Consul: the nodes are not registered")
                    self._failing = True
                await asyncio.sleep(self._retry.next_s())
        finally:
            await self._deregister()

    async def _follow(self, client: ConsulClient) -> None:
        """DiscoveryError ends it, and so do other nodes: each has a connection of its own."""
        names = self._names
        while names == self._names:
            gone = self._told.keys() - names
            samples = [sample for sample in self.samples if sample.node.name in names]
            # Together: one that is answered late must not make the others late.
            ends = await asyncio.gather(
                *(self._alone(name, partial(self._take_out, client, name)) for name in gone),
                *(
                    self._alone(each.node.name, partial(self._tell, client, each))
                    for each in samples
                ),
                return_exceptions=True,
            )
            for end in ends:
                if isinstance(end, BaseException):
                    raise end
            self._retry.succeeded()
            if self._failing and ends:
                log.info("Consul answers again")
                self._failing = False
            await asyncio.sleep(_LOOK_S)

    async def _alone(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        """Do what a node needs; if Consul refuses, only this node waits before it tries again."""
        refused = self._refused.get(name)
        if refused is not None and time.monotonic() < refused.again_s:
            return
        try:
            await work()
        except ConsulRefusedError as error:
            if refused is None:
                refused = self._refused[name] = _Refused(self._new_retry())
            if refused.reason != str(error):
                log.warning("Consul refuses node %s: %s", name, error)
            refused.reason = str(error)
            refused.again_s = time.monotonic() + refused.retry.next_s()
        else:
            if self._refused.pop(name, None) is not None:
                log.info("Consul does not refuse node %s any more", name)

    async def _take_out(self, client: ConsulClient, name: str) -> None:
        node = self._told[name].node
        await client.deregister(self._service_id(node), self._timeout_s)
        del self._told[name]
        log.info("Consul: %s is deregistered", node.instance_id)

    async def _tell(self, client: ConsulClient, sample: NodeSample) -> None:
        """Tell Consul of a node if that is due."""
        node, status, now_s = sample.node, _status(sample), time.monotonic()
        told = self._told.get(node.name)
        if told is not None and told.node == node:
            if told.status == status and now_s < told.due_s:
                return
            try:
                await self._heartbeat(client, node, status)
            except ConsulRefusedError:
                # It may have forgotten the node. If it may not be told at all, this fails as well.
                told = None
        if told is None or told.node != node:
            await client.register(self._registration(node), status, self._timeout_s)
            log.info("Consul: %s is registered, %s", node.instance_id, status)
            await self._heartbeat(client, node, status)
        due_s = now_s + self._heartbeat_s * self._rng.uniform(_EARLIEST_SHARE, 1.0)
        self._told[node.name] = _Told(node, status, due_s)

    async def _heartbeat(self, client: ConsulClient, node: Node, status: str) -> None:
        # Always the same words: Consul wakes everyone who watches for each new one.
        service_id = self._service_id(node)
        await client.heartbeat(service_id, status, _NOTES[status], self._timeout_s)

    async def _deregister(self) -> None:
        if not self._told:
            return
        gone: list[str] = []

        async def take_out(client: ConsulClient, node: Node) -> None:
            await client.deregister(self._service_id(node), _STOP_S)
            gone.append(node.name)

        nodes, reason = [told.node for told in self._told.values()], ""
        try:
            async with asyncio.timeout(_STOP_S), self._client() as client:
                ends = await asyncio.gather(
                    *(take_out(client, node) for node in nodes), return_exceptions=True
                )
                reason = next((str(end) for end in ends if isinstance(end, DiscoveryError)), "")
        except (DiscoveryError, TimeoutError) as error:
            reason = str(error) or f"{self._settings.address}: no answer in {_STOP_S:g} s"
        if len(gone) == len(nodes):
            log.info("Consul: %d nodes deregistered", len(gone))
        else:
            log.warning("Consul: %d of %d nodes deregistered: %s", len(gone), len(nodes), reason)

    def _client(self) -> ConsulClient:
        return ConsulClient(self._settings, len(self._names | self._told.keys()))

    def _new_retry(self) -> Retry:
        return Retry(_RETRY_LEAST_S, self._heartbeat_s, self._rng)

    def _registration(self, node: Node) -> Registration:
        host, _, port = node.address.rpartition(":")
        return Registration(
            service_id=self._service_id(node),
            address=host.strip("[]"),
            port=int(port),
            meta=consul_meta.encode(node),
            ttl_s=self._settings.check_ttl_s,
            deregister_after_s=_DEREGISTER_AFTER_S,
        )

    def _service_id(self, node: Node) -> str:
        # No name has a colon in it.
        return f"isocost:{self._agent}:{node.name}"


def _status(sample: NodeSample) -> str:
    if sample.engine_up:
        return "passing"
    return "warning" if sample.engine_silent else "critical"
