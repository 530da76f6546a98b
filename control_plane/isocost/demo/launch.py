"""How each part of the demo is started: the commands and configurations a user would write."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from isocost.config import BootstrapSettings
from isocost.demo.fleet import CAPACITY, MODEL, DemoNode, by_rack, fleet
from isocost.demo.options import DemoOptions
from isocost.demo.ports import WantedPort
from isocost.demo.processes import Processes
from isocost.envoy.bootstrap import bootstrap_yaml
from isocost.fake.machine import agent_environment, agent_keys
from isocost.fake.node_machine import install

#: The generator and the fake nodes yield to Envoy and the control plane: a real fleet has them on
#: machines of their own, here all share a few cores, and the timing shown is the product's.
LOAD_NICE = 5

_ISOCOST = (sys.executable, "-m", "isocost.cli.main")
#: Enough for the demo's rate, and the same on every machine.
_ENVOY_WORKERS = 2
_ACCESS_LOG_FLUSH_MS = 200


@dataclass(frozen=True, slots=True)
class Stage:
    """What is started, and where its files go."""

    run_dir: Path
    envoy: Path
    options: DemoOptions

    @property
    def nodes(self) -> tuple[DemoNode, ...]:
        return fleet(self.options.node_port_base)

    @property
    def access_log(self) -> Path:
        return self.run_dir / "access.log"

    def machine(self, rack: str) -> Path:
        """The fake machine of a rack's agent."""
        return self.run_dir / f"machine-{rack}"


def wanted_ports(options: DemoOptions) -> tuple[WantedPort, ...]:
    """Every port of the demo with the flag that moves it."""
    return (
        WantedPort(options.port, "gateway (Envoy)", "--port"),
        WantedPort(options.admin_port, "Envoy admin page", "--admin-port"),
        WantedPort(options.control_plane_port, "control plane", "--control-plane-port"),
        WantedPort(options.http_port, "control plane's HTTP pages", "--http-port"),
        *(
            WantedPort(node.port, f"fake node {node.name}", "--node-port-base")
            for node in fleet(options.node_port_base)
        ),
    )


def start_all(stage: Stage, processes: Processes) -> int:
    """Start everything at once, the slowest first; each part waits for the others by itself.

    The result is Envoy's pid.
    """
    _start_control_plane(stage, processes)
    envoy_pid = _start_envoy(stage, processes)
    for node in stage.nodes:
        _start_fake_node(stage, processes, node)
    for rack, nodes in by_rack(stage.nodes).items():
        _start_agent(stage, processes, rack, nodes)
    return envoy_pid


def _start_control_plane(stage: Stage, processes: Processes) -> None:
    options = stage.options
    config = {
        "listen": f"127.0.0.1:{options.control_plane_port}",
        "http": f"127.0.0.1:{options.http_port}",
        "filter": {"policy": options.policy},
        "entropy": {"capacity": CAPACITY},
    }
    _start_daemon(stage, processes, "control-plane", "control-plane", config)


def _start_envoy(stage: Stage, processes: Processes) -> int:
    options = stage.options
    settings = BootstrapSettings(
        node_id="demo",
        listen=f"127.0.0.1:{options.port}",
        admin=f"127.0.0.1:{options.admin_port}",
        control_plane=f"127.0.0.1:{options.control_plane_port}",
    )
    path = stage.run_dir / "bootstrap.yaml"
    path.write_text(bootstrap_yaml(settings), encoding="utf-8")
    return processes.start(
        "envoy",
        [
            str(stage.envoy),
            *("--config-path", str(path)),
            *("--concurrency", str(_ENVOY_WORKERS)),
            *("--file-flush-interval-msec", str(_ACCESS_LOG_FLUSH_MS)),
            # Hot restart shares memory under a number of the machine: a second Envoy would fail.
            "--disable-hot-restart",
            *("--log-level", "warning"),
        ],
        output=stage.access_log,
    )


def _start_fake_node(stage: Stage, processes: Processes, node: DemoNode) -> None:
    machine = stage.machine(node.rack)
    # Agents do not wait for nodes, and look for new GPUs every half a minute only.
    install(node.settings(stage.options.seed, machine))
    processes.start(
        node.name,
        [
            *_ISOCOST,
            "fake-node",
            f"--name={node.name}",
            f"--listen=127.0.0.1:{node.port}",
            f"--gpu-kind={node.gpu_kind}",
            f"--model={MODEL}",
            f"--seed={stage.options.seed}",
            f"--machine={machine}",
        ],
        nice=LOAD_NICE,
    )


def _start_agent(
    stage: Stage, processes: Processes, rack: str, nodes: tuple[DemoNode, ...]
) -> None:
    name = f"agent-{rack}"
    machine = stage.machine(rack)
    config = {
        "name": name,
        "control_plane": f"127.0.0.1:{stage.options.control_plane_port}",
        "http": None,
        **agent_keys(machine),
        "nodes": [dict(node.agent_entry(stage.options.seed)) for node in nodes],
    }
    _start_daemon(stage, processes, name, "agent", config, agent_environment(machine))


def _start_daemon(
    stage: Stage,
    processes: Processes,
    name: str,
    command: str,
    config: Mapping[str, object],
    environment: Mapping[str, str] | None = None,
) -> None:
    path = stage.run_dir / f"{name}.yaml"
    path.write_text(yaml.safe_dump(config, sort_keys=False), encoding="utf-8")
    command_line = [*_ISOCOST, command, f"--config={path}"]
    processes.start(name, command_line, environment=environment)
