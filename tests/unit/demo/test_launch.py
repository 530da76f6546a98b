"""Every command of the demo is one that the commands themselves accept."""

import argparse
import importlib
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from isocost.config import AgentConfig, ControlPlaneConfig
from isocost.config_file import load
from isocost.demo import launch
from isocost.demo.fleet import fleet
from isocost.demo.options import DemoOptions
from isocost.demo.processes import Processes


class Recorder(Processes):
    """Starts nothing and remembers what it should have started."""

    def __init__(self, log_dir: Path) -> None:
        super().__init__(log_dir)
        self.commands: dict[str, list[str]] = {}
        self.nice: dict[str, int] = {}
        self.outputs: dict[str, Path | None] = {}
        self.environments: dict[str, Mapping[str, str]] = {}

    def start(
        self,
        name: str,
        command: list[str],  # type: ignore[override]
        *,
        nice: int = 0,
        output: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> int:
        self.commands[name] = command
        self.nice[name] = nice
        self.outputs[name] = output
        self.environments[name] = environment or {}
        return len(self.commands)


@pytest.fixture
def recorder(tmp_path: Path, options: DemoOptions) -> Recorder:
    recorder = Recorder(tmp_path)
    stage = launch.Stage(tmp_path, Path("/opt/envoy"), options)
    envoy_pid = launch.start_all(stage, recorder)
    assert list(recorder.commands)[envoy_pid - 1] == "envoy"
    return recorder


def parsed(module: str, command: list[str]) -> argparse.Namespace:
    """The command's arguments, read by its own parser."""
    parser = argparse.ArgumentParser(exit_on_error=False)
    importlib.import_module(module).add_arguments(parser)
    _python, _m, main, _name, *arguments = command
    assert main == "isocost.cli.main"
    return parser.parse_args(arguments)


def test_all_parts_are_started_and_the_load_yields_to_the_product(recorder: Recorder) -> None:
    nodes = {name for name, nice in recorder.nice.items() if nice}
    assert len(nodes) == 8
    assert set(recorder.commands) - nodes == {
        "control-plane",
        "envoy",
        "agent-rack-a",
        "agent-rack-b",
    }


def test_fake_nodes_and_control_plane_get_what_was_chosen(
    recorder: Recorder, options: DemoOptions
) -> None:
    node = parsed("isocost.cli.fake_node", recorder.commands["a100-b2-1"])
    assert node.listen == ("127.0.0.1", options.node_port_base + 7)
    assert (node.name, node.gpu_kind, node.seed) == ("a100-b2-1", "A100", options.seed)
    control_plane = parsed("isocost.cli.control_plane", recorder.commands["control-plane"])
    config = load(ControlPlaneConfig, control_plane.config)
    assert config.listen == f"127.0.0.1:{options.control_plane_port}"
    assert config.http == f"127.0.0.1:{options.http_port}"
    assert config.filter.policy == options.policy


def test_the_control_plane_knows_what_each_card_of_the_fleet_takes(
    recorder: Recorder, options: DemoOptions
) -> None:
    path = parsed("isocost.cli.control_plane", recorder.commands["control-plane"]).config
    capacity = load(ControlPlaneConfig, path).entropy.capacity
    assert capacity["A100"] < capacity["H100"]
    assert capacity.keys() == {node.gpu_kind for node in fleet(options.node_port_base)}


def test_agents_find_the_control_plane_and_the_nodes_of_their_rack(
    recorder: Recorder, options: DemoOptions
) -> None:
    for rack in ("rack-a", "rack-b"):
        agent = parsed("isocost.cli.agent", recorder.commands[f"agent-{rack}"])
        config = load(AgentConfig, agent.config)
        assert config.control_plane == f"127.0.0.1:{options.control_plane_port}"
        assert {node.rack for node in config.nodes} == {rack}
        for node in config.nodes:
            fake = parsed("isocost.cli.fake_node", recorder.commands[node.name])
            assert node.address == f"127.0.0.1:{fake.listen[1]}"
            assert [model.name for model in node.models] == fake.model


def test_agents_read_the_gpus_of_the_fake_machine_that_their_nodes_are_part_of(
    recorder: Recorder, tmp_path: Path
) -> None:
    for rack in ("rack-a", "rack-b"):
        config = load(AgentConfig, tmp_path / f"agent-{rack}.yaml")
        machine = tmp_path / f"machine-{rack}"
        assert (config.procfs, config.sysfs) == (f"{machine}/proc", f"{machine}/sys")
        state = recorder.environments[f"agent-{rack}"]["ISOCOST_FAKE_NVML"]
        assert state == f"{machine}/nvml"
        for node in config.nodes:
            fake = parsed("isocost.cli.fake_node", recorder.commands[node.name])
            assert fake.machine == machine
            # They are there before the agent looks.
            first, *_ = (Path(state) / node.name).read_text().splitlines()
            assert [f"GPU-{name}" for name in first.removeprefix("gpus=").split(",")] == [
                *node.gpus
            ]


def test_envoy_logs_requests_to_its_own_file_and_finds_the_control_plane(
    recorder: Recorder, options: DemoOptions, tmp_path: Path
) -> None:
    command = recorder.commands["envoy"]
    assert command[0] == "/opt/envoy"
    assert recorder.outputs["envoy"] == tmp_path / "access.log"
    bootstrap = yaml.safe_load(Path(command[command.index("--config-path") + 1]).read_text())
    text = yaml.safe_dump(bootstrap)
    for port in (options.port, options.admin_port, options.control_plane_port):
        assert f"port_value: {port}" in text
