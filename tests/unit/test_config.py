"""A bad configuration is refused with the field, the value and what is allowed."""

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from isocost.config import AgentConfig, BootstrapSettings, ControlPlaneConfig, NodeListFile
from isocost.config_file import MAX_BYTES, load, parse, read
from isocost.errors import ConfigError


@pytest.mark.parametrize(
    ("data", "field", "value", "allowed"),
    [
        ({"weigth": {}}, "weigth", None, "known here: discovery, entropy, envoy, filter, hist"),
        ({"weight": {"latency": 1}}, "weight.latency", None, "latency_factor_per_ms"),
        (
            {"weight": {"latency_factor_per_ms": -0.1}},
            "weight.latency_factor_per_ms",
            -0.1,
            "greater than or equal to 0",
        ),
        ({"listen": "127.0.0.1:70000"}, "listen", "127.0.0.1:70000", "between 1 and 65535"),
        ({"listen": "foo bar:1"}, "listen", "foo bar:1", "HOST:PORT"),
        ({"listen": "127.0.0.1"}, "listen", "127.0.0.1", "HOST:PORT"),
        ({"tick_ms": 1}, "tick_ms", 1, "greater than or equal to 20"),
        ({"tick_ms": "fast"}, "tick_ms", "fast", "valid integer"),
        ({"filter": {"policy": "best"}}, "filter.policy", "best", "'weighted_random'"),
        ({"filter": {"profile_limit_bytes": -1}}, "filter.profile_limit_bytes", -1, "equal to 0"),
        ({"filter": {"model_from": "cookie:x"}}, "filter.model_from", "cookie:x", "header:NAME"),
        ({"filter": {"user_from": "body,body"}}, "filter.user_from", "body,body", "each once"),
        ({"filter": {"user_from": ""}}, "filter.user_from", "", "header:NAME"),
        (
            {"filter": {"user_from": "header:X-A"}},
            "filter.user_from",
            "header:X-A",
            "small letters",
        ),
        (
            {"filter": {"model_from": "body,jwt:a,jwt:b,jwt:c,jwt:d"}},
            "filter.model_from",
            "body,jwt:a,jwt:b,jwt:c,jwt:d",
            "one to 4",
        ),
        ({"models": "m"}, "models", None, "a string is not allowed; input should be a valid list"),
        (
            {"envoy": {"max_concurrent_requests": 2**32}},
            "envoy.max_concurrent_requests",
            2**32,
            "4294967295",
        ),
        (
            {"envoy": {"stream_idle_timeout_s": 10**14}},
            "envoy.stream_idle_timeout_s",
            10**14,
            "604800",
        ),
        ({"filter": {"projection": 1}}, "filter.projection", 1, "valid boolean"),
        ({"history": {"redis_url": "http://x"}}, "history.redis_url", "http://x", "redis"),
        (
            {"history": {"redis_url": "redis://:pw@h:abc/0"}},
            "history.redis_url",
            "redis://:pw@h:abc/0",
            "port between 1 and 65535",
        ),
        ({"state_dir": ""}, "state_dir", "", "at least 1 character"),
        ({"discovery": {"file": ""}}, "discovery.file", "", "at least 1 character"),
        ({"models": [{"gpu_kinds": []}]}, "models.0.name", None, "required"),
        (
            {"models": [{"name": "m", "token_coefficients": [0.5]}]},
            "models.0.token_coefficients",
            [0.5],
            "6 numbers",
        ),
        ({"entropy": {"kv_per_gb": float("nan")}}, "entropy.kv_per_gb", None, "finite"),
        ({"entropy": {"capacity": {"H100": 0.0}}}, "entropy.capacity.H100", 0.0, "greater than 0"),
        ([], "(top level)", [], "a valid mapping"),
    ],
)
def test_a_bad_value_is_refused_by_name(
    data: object, field: str, value: object, allowed: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(ControlPlaneConfig, data, "test")
    (error,) = caught.value.fields
    assert error.field == field
    if value is not None:
        assert error.value == value
    assert allowed in error.allowed
    assert f"test: {field}: " in str(caught.value)


@pytest.mark.parametrize(
    ("data", "field"),
    [
        ({"tick_ms": 2000}, "filter.max_table_age_ms"),
        (
            {"discovery": {"lost_after_ms": 5000, "forget_after_ms": 5000}},
            "discovery.forget_after_ms",
        ),
        ({"states": {"eject_base_s": 400.0}}, "states.eject_max_s"),
        ({"models": [{"name": "m"}, {"name": "m"}]}, "models.1.name"),
        (
            {"envoy": {"request_body_buffer_limit_bytes": 1000}},
            "filter.profile_limit_bytes",
        ),
    ],
)
def test_values_that_cannot_work_together_are_refused(data: object, field: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(ControlPlaneConfig, data, "test")
    assert [error.field for error in caught.value.fields] == [field]


def test_every_bad_field_is_named_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        parse(ControlPlaneConfig, {"tick_ms": 0, "http": "x", "extra": 1}, "test")
    assert {error.field for error in caught.value.fields} == {"tick_ms", "http", "extra"}


def test_defaults_need_no_file_content(tmp_path: Path) -> None:
    path = tmp_path / "empty.yaml"
    path.write_text("")
    assert load(ControlPlaneConfig, path) == ControlPlaneConfig()


@pytest.mark.parametrize(
    "content", [b"a: [", b"\xff\xfe\x00", b"a: b: c", b"state_dir: 2024-13-45", b"[" * 100_000]
)
def test_a_file_that_is_not_yaml_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "bad.yaml"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"bad\.yaml"):
        load(ControlPlaneConfig, path)


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_what_is_no_regular_file_is_refused_and_not_waited_for(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    path = tmp_path / "odd.yaml"
    make(path)
    with pytest.raises(
        ConfigError, match=r"odd\.yaml: \(file\): not readable: (it is no regular file|Is a dir)"
    ):
        load(ControlPlaneConfig, path)


def test_a_file_that_is_too_long_is_not_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "long.yaml"
    path.touch()
    os.truncate(path, MAX_BYTES)
    assert len(read(path)) == MAX_BYTES
    os.truncate(path, 2**40)
    with pytest.raises(ConfigError, match="16777216 bytes"):
        read(path)


def test_tens_of_thousands_of_entries_are_checked_in_time() -> None:
    models = [{"name": f"m{index}"} for index in range(60_000)]
    begin_cpu_s = time.process_time()
    parse(ControlPlaneConfig, {"models": models}, "test")
    assert time.process_time() - begin_cpu_s < 5.0


def test_a_missing_file_is_refused_with_its_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nowhere"):
        load(ControlPlaneConfig, tmp_path / "nowhere.yaml")


NODE = {"name": "a", "address": "192.0.2.1:8000", "rack": "r1", "host": "h1"}


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"address": "10.1:8000"}, "nodes.0.address"),
        ({"address": ":8000"}, "nodes.0.address"),
        ({"address": "192.0.2.1:0"}, "nodes.0.address"),
        ({"address": "::1:80"}, "nodes.0.address"),
        ({"address": "[192.0.2.1]:80"}, "nodes.0.address"),
        ({"address": "[fe80::1%eth0]:80"}, "nodes.0.address"),
        ({"address": "0.0.0.0:80"}, "nodes.0.address"),
        ({"address": "[::]:80"}, "nodes.0.address"),
        ({"address": "[::ffff:0.0.0.0]:80"}, "nodes.0.address"),
        ({"address": "224.0.0.1:80"}, "nodes.0.address"),
        ({"address": "[ff02::1]:80"}, "nodes.0.address"),
        ({"name": ""}, "nodes.0.name"),
        ({"name": "a,b"}, "nodes.0.name"),
        ({"gpu_count": 0}, "nodes.0.gpu_count"),
        ({"min_input_tokens": -1}, "nodes.0.min_input_tokens"),
        ({"min_input_tokens": 512, "max_input_tokens": 512}, "nodes.0.max_input_tokens"),
        ({"models": [{"name": "m", "adapters": [""]}]}, "nodes.0.models.0.adapters.0"),
        (
            {"models": [{"name": "m", "max_length_tokens": 2**32}]},
            "nodes.0.models.0.max_length_tokens",
        ),
        ({"models": [{"name": "m", "weight_bytes": 2**64}]}, "nodes.0.models.0.weight_bytes"),
    ],
)
def test_a_bad_node_is_refused_by_its_place(change: dict[str, object], field: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(NodeListFile, {"nodes": [NODE | change]}, "nodes.yaml")
    assert [error.field for error in caught.value.fields] == [field]


@pytest.mark.parametrize("key", ["name", "address"])
def test_two_nodes_with_one_name_or_address_are_refused(key: str) -> None:
    other = {"name": "b", "address": "192.0.2.2:8000", "rack": "r1", "host": "h1"}
    with pytest.raises(ConfigError) as caught:
        parse(NodeListFile, {"nodes": [NODE, other | {key: NODE[key]}]}, "nodes.yaml")
    (error,) = caught.value.fields
    assert (error.field, error.value) == (f"nodes.1.{key}", NODE[key])


@pytest.mark.parametrize(
    ("address", "same"),
    [
        ("127.0.0.1:29101", "[::ffff:127.0.0.1]:29101"),
        ("[2001:db8::1]:80", "[2001:DB8:0::1]:080"),
    ],
)
def test_one_address_written_in_two_ways_is_one(address: str, same: str) -> None:
    nodes = [NODE | {"address": address}, NODE | {"name": "b", "address": same}]
    with pytest.raises(ConfigError) as caught:
        parse(NodeListFile, {"nodes": nodes}, "nodes.yaml")
    (error,) = caught.value.fields
    assert (error.field, error.value) == ("nodes.1.address", same)


def test_an_envoy_may_listen_on_all_addresses() -> None:
    assert parse(BootstrapSettings, {"listen": "[::]:10000"}, "x").listen == "[::]:10000"


def test_a_bad_entry_of_a_list_is_told_once() -> None:
    nodes = [NODE | {"gpu_count": 0, "metrics_url": "http://a", "dcgm_url": "http://a"}]
    with pytest.raises(ConfigError) as caught:
        parse(AgentConfig, {"name": "host-1", "nodes": nodes}, "agent.yaml")
    assert [error.field for error in caught.value.fields] == ["nodes.0.gpu_count"]


def test_a_gpu_belongs_to_one_node_and_once() -> None:
    node = NODE | {"metrics_url": "http://a", "gpus": ["GPU-a", "GPU-b"], "gpu_count": 2}
    twice = {"gpus": ["GPU-c", "GPU-b", "GPU-c"], "gpu_count": 3}
    other = node | {"name": "b", "address": "192.0.2.2:8000"} | twice
    with pytest.raises(ConfigError) as caught:
        parse(AgentConfig, {"name": "host-1", "nodes": [node, other]}, "agent.yaml")
    told = [(error.field, error.value) for error in caught.value.fields]
    assert told == [("nodes.1.gpus", "GPU-b"), ("nodes.1.gpus", "GPU-c")]


def test_a_value_without_end_is_told_in_short() -> None:
    with pytest.raises(ConfigError) as caught:
        parse(ControlPlaneConfig, {"listen": ["x" * 1000] * 1000, "http": "x" * 10_000}, "test")
    assert len(str(caught.value)) < 3000


def test_a_key_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "twice.yaml"
    path.write_text("tick_ms: 200\ntick_ms: 100\n")
    with pytest.raises(ConfigError, match="line 2, column 1: the key tick_ms is there twice"):
        load(ControlPlaneConfig, path)


def test_an_ipv6_address_in_brackets_is_a_node_address() -> None:
    (node,) = parse(NodeListFile, {"nodes": [NODE | {"address": "[2001:db8::1]:8000"}]}, "x").nodes
    assert node.node(start_epoch=5).instance_id == "a@5"


def test_an_agent_without_nodes_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"nodes: .* at least 1"):
        parse(AgentConfig, {"name": "host-1", "nodes": []}, "agent.yaml")


def test_a_length_class_may_be_open_at_either_end() -> None:
    for low, high in ((0, 0), (512, 0), (0, 512), (512, 4096)):
        change = {"min_input_tokens": low, "max_input_tokens": high}
        (node,) = parse(NodeListFile, {"nodes": [NODE | change]}, "nodes.yaml").nodes
        assert node.node(1).min_input_tokens == low
        assert node.node(1).max_input_tokens == high


def test_the_policy_is_equal_cost_unless_said_otherwise() -> None:
    settings = ControlPlaneConfig().filter
    assert settings.policy == "equal_cost"
    assert (settings.projection, settings.dispersion) == (True, True)
    assert settings.profile_limit_bytes == 262_144


def test_a_node_has_as_many_gpus_as_it_says() -> None:
    node = NODE | {"metrics_url": "http://a", "gpus": ["GPU-a", "GPU-b"], "gpu_count": 8}
    with pytest.raises(ConfigError, match="gpu_count: 8 is not allowed; must be 2"):
        parse(AgentConfig, {"name": "host-1", "nodes": [node]}, "agent.yaml")
