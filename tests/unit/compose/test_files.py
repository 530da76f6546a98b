"""The files that docker-compose.yml and the images are made of fit each other and the commands."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from isocost.bench.scenario import read_scenario
from isocost.config import AgentConfig, ControlPlaneConfig
from isocost.config_file import load

ROOT = Path(__file__).parents[3]
COMPOSE = ROOT / "compose"
SERVICES: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
NODES = {name for name in SERVICES if name.startswith("node-")}
ENV = dict(re.findall(r"^(\w+)=(.*)$", (ROOT / ".env").read_text(), re.MULTILINE))
DOCKERFILE = (ROOT / "Dockerfile").read_text()


def test_the_base_is_one_image_and_pinned() -> None:
    assert f"ARG DEBIAN_IMAGE={ENV['DEBIAN_IMAGE']}\n" in DOCKERFILE
    assert re.search(r"-\d{8}-slim@sha256:[0-9a-f]{64}$", ENV["DEBIAN_IMAGE"])
    bases = set(re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE))
    stages = set(re.findall(r"^FROM \S+ AS (\S+)", DOCKERFILE, re.MULTILINE))
    assert bases - stages == {"${DEBIAN_IMAGE}"}


def test_no_image_has_a_moving_tag() -> None:
    for key, name in ENV.items():
        if key.endswith("_IMAGE"):
            tag = name.partition("@")[0].partition(":")[2]
            assert re.search(r"\d+\.\d+\.\d+|\d{8}", tag), name


def test_every_variable_has_a_value() -> None:
    used = set(re.findall(r"\$\{(\w+)\}", (ROOT / "docker-compose.yml").read_text()))
    assert used == set(ENV) - {"COMPOSE_PROJECT_NAME"}


def test_ports_are_of_this_machine_only() -> None:
    ports = [port for service in SERVICES.values() for port in service.get("ports", ())]
    assert ports
    addresses = {port.split(":")[0] for port in ports}
    assert addresses == {"127.0.0.1", "${CONTROL_PLANE_ADDRESS}"}
    assert ENV["CONTROL_PLANE_ADDRESS"] == "127.0.0.1"


def test_each_image_of_ours_is_built_by_one_service_and_never_pulled() -> None:
    # Builders that export several at once fail where two services build one name.
    ours = {name: one for name, one in SERVICES.items() if one["image"].startswith("isocost/")}
    building = [one["image"] for one in ours.values() if "build" in one]
    assert sorted(building) == ["isocost/envoy", "isocost/fake-node", "isocost/isocost"]
    assert {one["image"] for one in ours.values()} == set(building)
    assert all(one["pull_policy"] == "never" for one in ours.values())


def test_the_configurations_are_valid() -> None:
    control = load(ControlPlaneConfig, COMPOSE / "control-plane" / "control-plane.yaml")
    assert control.discovery.consul is not None
    assert load(AgentConfig, COMPOSE / "gpu-agent" / "agent.yaml").nodes


def test_chaos_and_load_know_the_nodes() -> None:
    scenario = read_scenario(COMPOSE / "chaos.yaml")
    assert set(scenario.nodes) <= NODES
    assert all(url == f"http://{name}:8000" for name, url in scenario.nodes.items())
    # It is repeated.
    assert all(fault.end_s is not None for fault in scenario.faults)
    for name in ("load", "chaos"):
        assert set(SERVICES[name]["depends_on"]) == {*NODES, "envoy"}


def test_prometheus_reads_every_node() -> None:
    jobs = yaml.safe_load((COMPOSE / "prometheus" / "prometheus.yml").read_text())["scrape_configs"]
    for job, port in (("agent", 18081), ("engine", 8000)):
        (found,) = [one for one in jobs if one["job_name"] == job]
        targets = {one["targets"][0]: one["labels"] for one in found["static_configs"]}
        assert targets == {
            f"{name}:{port}": {"rack": SERVICES[name]["environment"]["RACK"], "node": name}
            for name in NODES
        }


def test_two_racks_of_four() -> None:
    racks = [SERVICES[name]["environment"]["RACK"] for name in NODES]
    assert sorted(racks) == ["rack-1"] * 4 + ["rack-2"] * 4
    assert all(SERVICES[name]["environment"]["NODE"] == name for name in NODES)


@pytest.mark.parametrize(
    "name", ["envoy", "control-plane", "load", "chaos", "gpu-agent", *sorted(NODES)]
)
def test_our_containers_are_contained(name: str) -> None:
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]


def test_requirements_are_those_of_the_package() -> None:
    printed = subprocess.run(
        [sys.executable, "compose/requirements.py", "dependencies", "redis", "build-system"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()
    assert {line.partition("==")[0] for line in printed} >= {
        "grpcio",
        "numpy",
        "redis",
        "hatchling",
    }
    assert all("==" in line for line in printed)
