"""The settings of Consul: what is refused, by its whole path."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from isocost.config import AgentConfig, ControlPlaneConfig
from isocost.config_file import parse
from isocost.errors import ConfigError

NODE = {
    "name": "n1",
    "address": "192.0.2.1:8000",
    "rack": "r1",
    "host": "h1",
    "metrics_url": "http://192.0.2.1:8000/metrics",
    "dcgm_url": "http://192.0.2.1:9400/metrics",
}


def of_control_plane(**consul: Any) -> ControlPlaneConfig:
    return parse(ControlPlaneConfig, {"discovery": {"consul": consul}}, "f")


def of_agent(**consul: Any) -> AgentConfig:
    return parse(AgentConfig, {"name": "a1", "nodes": [NODE], "consul": consul}, "f")


def test_consul_is_not_used_unless_it_is_named() -> None:
    assert ControlPlaneConfig().discovery.consul is None
    assert parse(AgentConfig, {"name": "a1", "nodes": [NODE]}, "f").consul is None


def test_all_has_defaults() -> None:
    for settings in (of_control_plane().discovery.consul, of_agent().consul):
        assert settings is not None
        assert settings.address == "http://127.0.0.1:8500" and settings.service == "isocost-node"


@pytest.mark.parametrize(
    ("consul", "field"),
    [
        ({"address": "consul:8500"}, "address"),
        ({"address": "http://consul"}, "address"),
        ({"address": "http://consul:0"}, "address"),
        ({"address": "http://consul:8500/v1"}, "address"),
        ({"address": "http://user:secret@consul:8500"}, "address"),
        ({"service": "a/b"}, "service"),
        ({"service": ""}, "service"),
        ({"datacenter": "a b"}, "datacenter"),
        ({"namespace": "a&b"}, "namespace"),
        ({"token_file": "relative"}, "token_file"),
        ({"token": "user:secret"}, "token"),
        ({"check_ttl_s": 10}, "check_ttl_s"),
        ({"ca_file": "/ca.pem"}, "ca_file"),
        ({"address": "https://c:1", "cert_file": "/c"}, "key_file"),
        ({"address": "https://c:1", "key_file": "/k"}, "cert_file"),
    ],
)
def test_a_refused_key_is_named_with_its_path(consul: dict[str, str], field: str) -> None:
    with pytest.raises(ConfigError) as caught:
        of_control_plane(**consul)
    assert f"f: discovery.consul.{field}: " in str(caught.value)
    assert "user:secret" not in str(caught.value)


@pytest.mark.parametrize("ttl_s", [1, 16, 2.5])
def test_a_ttl_is_2_to_15_s(ttl_s: float) -> None:
    with pytest.raises(ConfigError, match=r"f: consul\.check_ttl_s: "):
        of_agent(check_ttl_s=ttl_s)


def test_an_agent_loads_consuls_client_only_if_it_registers() -> None:
    code = (
        "import sys, isocost.agent; sys.exit('consul' in sys.modules or 'aiohttp' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
