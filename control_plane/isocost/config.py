"""The settings of the daemons as frozen types: names, defaults and what is allowed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, field_validator

from isocost.config_consul import ConsulDiscoverySettings, ConsulRegistrationSettings
from isocost.config_fields import (
    Endpoint,
    IpEndpoint,
    Name,
    NodeEndpoint,
    NodeIpEndpoint,
    PositiveMs,
    Sources,
    place,
)
from isocost.config_types import AbsolutePath, StrictSettings
from isocost.errors import FieldError
from isocost.model import Model, Node

Policy = Literal["weighted_random", "min_entropy", "equal_cost"]


#: Byte classes of the token estimate.
TOKEN_CLASSES = 6

#: What the messages' 32-bit and 64-bit fields can carry.
_UINT32, _UINT64 = 2**32 - 1, 2**64 - 1


class WeightSettings(StrictSettings):
    """Constants of W = free share * (1 - pcie) * exp(-factor * latency) * health (document B)."""

    latency_factor_per_ms: float = Field(0.05, ge=0)
    latency_window_s: float = Field(10.0, gt=0)
    latency_signal: Literal["tpot", "first_byte"] = "tpot"
    pcie_capacity_bytes_per_s: float = Field(128e9, gt=0)


class EntropySettings(StrictSettings):
    """Constants of E = kv * GB + age * s / concurrency + net * MB + queue (document A)."""

    kv_per_gb: float = Field(0.3, ge=0)
    age_per_s: float = Field(0.5, ge=0)
    net_per_mb: float = Field(0.2, ge=0)
    reference_concurrency: float = Field(64.0, gt=0)
    #: Mean predicted entropy of one waiting request, until requests are profiled one by one.
    waiting_request: float = Field(0.1, ge=0)
    #: What a node of this GPU kind absorbs relative to the reference card.
    capacity: Mapping[str, Annotated[float, Field(gt=0)]] = Field(default_factory=dict)


class StateSettings(StrictSettings):
    """Constants of the node states. Windows and times are in seconds."""

    #: A cold engine compiles kernels and fills caches on its first requests: its share grows from
    #: the floor to the whole over this long.
    slow_start_s: float = Field(10.0, gt=0)
    slow_start_floor: float = Field(0.1, gt=0, le=1)

    #: Failures are counted over this window: a node that fails everything has to be below its
    #: share within 5 s.
    window_s: float = Field(5.0, gt=0)
    #: Fewer failures than this are chance; a node that fails less than half of its requests is
    #: worth its share of the rest.
    eject_failures: int = Field(5, ge=1)
    eject_ratio: float = Field(0.5, gt=0, le=1)
    #: A fifth failing is far above what clients cause; three are the fewest that make a rate.
    suspect_failures: int = Field(3, ge=1)
    suspect_ratio: float = Field(0.2, gt=0, le=1)
    #: A suspect's part of its share: still enough to show that it works.
    suspect_share: float = Field(0.5, gt=0, le=1)
    #: Twice the window, so that a suspect has shown a whole window of new answers.
    clean_s: float = Field(10.0, gt=0)
    #: Failures and 429 never press the share below this: what gets nothing cannot show that it
    #: works again.
    lowest_share: float = Field(0.05, gt=0, le=1)

    #: An engine that runs works on all its requests within a second; one long prompt may be
    #: silent for minutes, three requests without any sign for 5 s are not.
    no_progress_requests: int = Field(3, ge=1)
    no_progress_s: float = Field(5.0, gt=0)

    #: By chance a score is too good once or twice; three ticks in a row is document A's rule.
    anomaly_ticks: int = Field(3, ge=1, le=1000)
    #: What is left to a node whose latency rose without load. Of the whole traffic that is less
    #: than half of a fair share, in a fleet of any size, and still shows when it is well again.
    jitter_share: float = Field(0.25, gt=0, le=1)
    #: A page that stands still for this long while answers come is stale: its counters move with
    #: each token.
    frozen_s: float = Field(3.0, ge=1, le=3600)
    #: An engine that says that it works, gets nowhere and has nothing of ours for this long is
    #: tried: no step of an engine takes a tenth of that.
    idle_stuck_s: float = Field(10.0, ge=1, le=3600)

    #: The first ejection is about one restart of a connection pool, each next one twice as long.
    eject_base_s: float = Field(5.0, gt=0)
    eject_max_s: float = Field(300.0, gt=0)
    #: Earlier ejections are forgotten this long after the last one ended: twice the longest.
    eject_forget_s: float = Field(600.0, gt=0)
    #: A node on trial gets at most this part of its share, and no more than this many requests
    #: before their outcome is known: all that a failed trial costs.
    trial_share: float = Field(0.05, gt=0, le=1)
    trial_requests: int = Field(5, ge=1)
    trial_successes: int = Field(3, ge=1)
    #: Without traffic nothing can be shown; what did not fail for this long is let in.
    trial_quiet_s: float = Field(30.0, gt=0)

    #: At most this part of a model's nodes is put aside by judgement: beyond it the cause is
    #: shared, and the rest would only be overloaded.
    max_out_fraction: float = Field(0.5, ge=0, le=1)
    #: As many nodes of a model stay in, however they behave.
    min_eligible: int = Field(1, ge=0)

    #: The longest answers take minutes; a drain that lasts longer needs a person's eye. Streams
    #: are never cut.
    drain_timeout_s: float = Field(600.0, gt=0)


class FilterSettings(StrictSettings):
    """Slow settings of the filter, delivered by ECDS."""

    policy: Policy = "equal_cost"
    max_table_age_ms: PositiveMs = 5000
    alternates: int = Field(2, ge=0, le=8)
    #: How much of a body is read before the choice; 0 = bodies are not read. Beyond it a request is
    #: profiled by its length: the first 256 KiB hold the model and the start of every prompt.
    profile_limit_bytes: int = Field(256 * 1024, ge=0, le=8 * 1024 * 1024)
    #: Where a request's model and user are looked for, in this order.
    model_from: Sources = "header:x-isocost-model,body"
    user_from: Sources = "header:x-isocost-user,body"
    #: Count in what this Envoy sent since the table, and what the others probably did.
    projection: bool = True
    #: Cap what a node gets of a burst between two tables.
    dispersion: bool = True


class EnvoySettings(StrictSettings):
    """What the control plane tells Envoy about routes and the node cluster."""

    #: Where Envoy's machine keeps the filter; empty = the file of this installation.
    wasm_path: str = ""
    connect_timeout_ms: PositiveMs = 1000
    stream_idle_timeout_s: int = Field(600, gt=0, le=7 * 86_400)
    request_body_buffer_limit_bytes: int = Field(32 * 1024 * 1024, gt=0, le=2**31 - 1)
    max_concurrent_requests: int = Field(100_000, gt=0, le=_UINT32)
    retry_budget_percent: float = Field(20.0, ge=0, le=100)
    #: A node that dies sends back all it had at once: an engine is given up to 256 requests
    #: (document A), and in a small fleet that is more than the budget's percentage.
    retry_min_concurrency: int = Field(256, ge=0, le=_UINT32)


class BootstrapSettings(StrictSettings):
    """What differs in Envoy's bootstrap from machine to machine."""

    #: Every Envoy needs its own.
    node_id: Name = "edge-1"
    listen: IpEndpoint = "0.0.0.0:10000"
    admin: IpEndpoint = "127.0.0.1:9901"
    control_plane: Endpoint = "127.0.0.1:18000"
    #: Where this Envoy finds the filter; empty = the file of this installation.
    wasm_path: str = ""


class DiscoverySettings(StrictSettings):
    """Where nodes come from besides the agents that announce themselves."""

    #: A YAML file of nodes, read again when it changes.
    file: str | None = Field(None, min_length=1)
    #: The instances of a Consul service; None = Consul is not asked.
    consul: ConsulDiscoverySettings | None = None
    #: A node whose agent was silent this long is lost.
    lost_after_ms: PositiveMs = 3000
    #: A lost node leaves the roster after this long.
    forget_after_ms: PositiveMs = 60_000
    #: With no node known, an empty roster is only sent this long after the start.
    settle_ms: PositiveMs = 5000


class ModelPlacement(StrictSettings):
    """What the control plane knows of a model, by its name on the nodes."""

    name: str = Field(min_length=1)
    #: Nodes of other kinds do not serve it; empty = any.
    gpu_kinds: tuple[str, ...] = Field((), strict=False)
    #: Tokens per byte of letters, digits, punctuation, blanks, CJK and other text; empty = the
    #: filter's defaults.
    token_coefficients: tuple[Annotated[float, Field(ge=0, le=8)], ...] = Field((), strict=False)
    #: Mean length of an answer until some were seen; 0 = not known.
    output_tokens: float = Field(0.0, ge=0, le=10_000_000)

    @field_validator("token_coefficients")
    @classmethod
    def _six(cls, value: tuple[float, ...]) -> tuple[float, ...]:
        if len(value) not in (0, TOKEN_CLASSES):
            raise ValueError(f"must be {TOKEN_CLASSES} numbers")
        return value


def _redis_url(value: str) -> str:
    try:
        # Reading the port is what checks it.
        good = urlsplit(value).port != 0
    except ValueError:
        good = False
    if not good:
        raise ValueError(
            "must have a port between 1 and 65535 after HOST: or none, and in a password "
            "each of / ? # @ : as % and its code"
        )
    return value


RedisUrl = Annotated[str, Field(pattern=r"^(redis|rediss|unix)://"), AfterValidator(_redis_url)]


class HistorySettings(StrictSettings):
    """Where the expected lengths of answers survive a restart besides the state folder."""

    #: Several control planes may share one.
    redis_url: RedisUrl | None = None


class ControlPlaneConfig(StrictSettings):
    """The control plane daemon."""

    listen: Endpoint = "127.0.0.1:18000"
    http: Endpoint = "127.0.0.1:18080"
    tick_ms: int = Field(200, ge=20, le=2_000)
    #: Folder of what must survive a restart: the settings by hand. None = they do not.
    state_dir: str | None = Field(None, min_length=1)
    discovery: DiscoverySettings = DiscoverySettings()
    states: StateSettings = StateSettings()
    weight: WeightSettings = WeightSettings()
    entropy: EntropySettings = EntropySettings()
    filter: FilterSettings = FilterSettings()
    envoy: EnvoySettings = EnvoySettings()
    history: HistorySettings = HistorySettings()
    models: tuple[ModelPlacement, ...] = Field((), strict=False)

    def contradictions(self) -> list[FieldError]:
        table_ms, lost_ms = self.filter.max_table_age_ms, self.discovery.lost_after_ms
        forget_ms, longest_s = self.discovery.forget_after_ms, self.states.eject_max_s
        checks = (
            (self.listen != self.http, FieldError("http", self.http, "another than listen's")),
            (
                table_ms >= 3 * self.tick_ms,
                FieldError("filter.max_table_age_ms", table_ms, "at least three times tick_ms"),
            ),
            (
                forget_ms > lost_ms,
                FieldError("discovery.forget_after_ms", forget_ms, "more than lost_after_ms"),
            ),
            (
                self.filter.profile_limit_bytes <= self.envoy.request_body_buffer_limit_bytes,
                FieldError(
                    "filter.profile_limit_bytes",
                    self.filter.profile_limit_bytes,
                    "at most envoy.request_body_buffer_limit_bytes",
                ),
            ),
            (
                longest_s >= self.states.eject_base_s,
                FieldError("states.eject_max_s", longest_s, "at least eject_base_s"),
            ),
        )
        first: dict[str, int] = {}
        twice = [
            FieldError(f"models.{index}.name", model.name, "another entry has it")
            for index, model in enumerate(self.models)
            if first.setdefault(model.name, index) != index
        ]
        consul = _inside("discovery.consul", self.discovery.consul)
        return [error for good, error in checks if not good] + twice + consul


class ModelSettings(StrictSettings):
    name: str = Field(min_length=1)
    aliases: tuple[str, ...] = Field((), strict=False)
    weight_bits: int = Field(16, gt=0, le=64)
    weight_bytes: int = Field(0, ge=0, le=_UINT64)
    kv_bytes_per_token: int = Field(0, ge=0, le=_UINT64)
    max_length_tokens: int = Field(0, ge=0, le=_UINT32)
    #: LoRA adapters that are loaded on it, asked for by their own names.
    adapters: tuple[Annotated[str, Field(min_length=1)], ...] = Field((), strict=False)

    def model(self) -> Model:
        return Model(**self.model_dump())


class NodeSettings(StrictSettings):
    """A node as an operator writes it down: in an agent's configuration or in a discovery file."""

    name: Name
    address: NodeIpEndpoint
    rack: Name
    host: Name
    gpu_kind: str = ""
    gpu_count: int = Field(1, ge=1, le=64)
    models: tuple[ModelSettings, ...] = Field((), strict=False)
    #: The length class: it is meant for prompts of min <= tokens < max; 0 = no bound.
    min_input_tokens: int = Field(0, ge=0, le=_UINT32)
    max_input_tokens: int = Field(0, ge=0, le=_UINT32)

    def contradictions(self) -> list[FieldError]:
        if 0 < self.max_input_tokens <= self.min_input_tokens:
            allowed = "0, or more than min_input_tokens"
            return [FieldError("max_input_tokens", self.max_input_tokens, allowed)]
        return []

    def node(self, start_epoch: int) -> Node:
        """The node as the instance that started at ``start_epoch`` (unix seconds)."""
        return Node(
            name=self.name,
            instance_id=f"{self.name}@{start_epoch}",
            address=self.address,
            rack=self.rack,
            host=self.host,
            gpu_kind=self.gpu_kind,
            gpu_count=self.gpu_count,
            models=tuple(model.model() for model in self.models),
            min_input_tokens=self.min_input_tokens,
            max_input_tokens=self.max_input_tokens,
        )


class ListedNodeSettings(NodeSettings):
    #: A name is resolved by the control plane.
    address: NodeEndpoint


class NodeListFile(StrictSettings):
    """The discovery file."""

    nodes: tuple[ListedNodeSettings, ...] = Field((), strict=False)

    def contradictions(self) -> list[FieldError]:
        return _in_nodes(self.nodes)


#: As `nvidia-smi -L` prints it.
GpuUuid = Annotated[str, Field(pattern=r"^(GPU|MIG)-\S+$")]
#: A name below /sys/class/infiniband or in /proc/net/dev: it becomes part of a path.
NetworkDevice = Annotated[str, Field(max_length=128, pattern=r"^[A-Za-z0-9_-][A-Za-z0-9_.@-]*$")]


class AgentNodeSettings(NodeSettings):
    #: The engine's metrics page.
    metrics_url: str = Field(pattern=r"^https?://")
    #: Where the GPUs' signals come from: NVML, for GPUs or MIG slices by their UUIDs,
    gpus: tuple[GpuUuid, ...] = Field((), strict=False)
    #: or a DCGM exporter's page.
    dcgm_url: str | None = Field(None, pattern=r"^https?://")
    #: The network devices that the node's requests come over; empty = all of the machine.
    network: tuple[NetworkDevice, ...] = Field((), strict=False)
    #: A page that tells the node's clock where it is not the agent's.
    clock_url: str | None = Field(None, pattern=r"^https?://")
    #: Run, without a shell, when the engine has lost its CUDA handles.
    restart_command: tuple[str, ...] = Field((), strict=False)

    def contradictions(self) -> list[FieldError]:
        errors = super().contradictions()
        if (self.dcgm_url is None) == (not self.gpus):
            errors.append(FieldError("gpus", list(self.gpus), "either dcgm_url or gpus is needed"))
        if self.gpus and len(self.gpus) != self.gpu_count:
            allowed = f"must be {len(self.gpus)}: as many as gpus"
            errors.append(FieldError("gpu_count", self.gpu_count, allowed))
        return errors


class AgentConfig(StrictSettings):
    """The agent of one GPU machine."""

    name: Name
    control_plane: Endpoint = "127.0.0.1:18000"
    #: Metrics; None: not served.
    http: Endpoint | None = "127.0.0.1:18081"
    #: A report that is a second old is stale.
    interval_ms: int = Field(200, ge=20, le=200)
    #: Where the machine's own are mounted: elsewhere in a container.
    procfs: AbsolutePath = "/proc"
    sysfs: AbsolutePath = "/sys"
    #: Where the nodes are registered as well; None = nowhere.
    consul: ConsulRegistrationSettings | None = None
    nodes: tuple[AgentNodeSettings, ...] = Field(min_length=1, strict=False)

    def contradictions(self) -> list[FieldError]:
        listed = [(index, uuid) for index, node in enumerate(self.nodes) for uuid in node.gpus]
        first: dict[str, int] = {}
        twice = [
            FieldError(f"nodes.{index}.gpus", uuid, "it is listed already")
            for place, (index, uuid) in enumerate(listed)
            if first.setdefault(uuid, place) != place
        ]
        return _in_nodes(self.nodes) + twice + _inside("consul", self.consul)


def _inside(place: str, settings: StrictSettings | None) -> list[FieldError]:
    """What is wrong with settings that lie in others, by its whole path."""
    return [
        FieldError(f"{place}.{error.field}", error.value, error.allowed)
        for error in (settings.contradictions() if settings else [])
    ]


def _in_nodes(nodes: Sequence[NodeSettings]) -> list[FieldError]:
    """What is wrong with the nodes of a list, each alone and all together."""
    alone = [
        FieldError(f"nodes.{index}.{error.field}", error.value, error.allowed)
        for index, node in enumerate(nodes)
        for error in node.contradictions()
    ]
    return alone + _twice(nodes)


def _twice(nodes: Sequence[NodeSettings]) -> list[FieldError]:
    """Names and addresses that more than one node of a list has."""
    errors = []
    for key in ("name", "address"):
        seen: set[object] = set()
        for index, node in enumerate(nodes):
            value = getattr(node, key)
            same = place(value) if key == "address" else value
            if same in seen:
                errors.append(FieldError(f"nodes.{index}.{key}", value, "another node has it"))
            seen.add(same)
    return errors
