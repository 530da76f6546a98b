"""`isocost topology` and what the machine's InfiniBand ports lost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from isocost.cli import topology as command
from isocost.cli.main import EXIT_DONE, EXIT_NO, EXIT_USAGE, main
from isocost.telemetry.topology.ib_loss import MAX_LOSS, PortLoss, port_losses
from isocost.telemetry.topology.local import Told
from isocost.telemetry.topology.matrix import read_matrix
from isocost.telemetry.topology.sysfs import Sysfs

MATRIX = Path(__file__).parents[2] / "data" / "gpu-topology" / "a6000-3x-nv4-pair.txt"


def port(sysfs: Path, device: str, number: int, **counters: object) -> None:
    folder = sysfs / f"class/infiniband/{device}/ports/{number}/counters"
    folder.mkdir(parents=True)
    values = {
        "port_rcv_errors": 0,
        "port_xmit_discards": 0,
        "port_rcv_packets": 600_000_000,
        "port_xmit_packets": 400_000_000,
    }
    for name, value in (values | counters).items():
        (folder / name).write_text(f"{value}\n")


@pytest.fixture
def sysfs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    told = Told(read_matrix(MATRIX.read_text()), "nvidia-smi")
    monkeypatch.setattr(command, "Sysfs", lambda: Sysfs(tmp_path))
    monkeypatch.setattr(command, "local_topology", lambda *_: told)
    return tmp_path


def test_losses_are_of_both_directions_and_of_ports_that_count(tmp_path: Path) -> None:
    port(tmp_path, "mlx5_0", 1, port_rcv_errors=3, port_xmit_discards=1)
    port(tmp_path, "mlx5_0", 2, port_rcv_packets=0, port_xmit_packets=0)
    port(tmp_path, "mlx5_1", 1, port_rcv_errors="N/A (no PMA)")
    found = port_losses(tmp_path)
    assert found == [
        PortLoss("mlx5_0", "1", 4, 1_000_000_000),
        PortLoss("mlx5_0", "2", 0, 0),
    ]
    assert found[0].share == pytest.approx(4e-9) and found[1].share == 0.0
    assert port_losses(tmp_path / "none") == []


def test_a_port_that_loses_packets_is_shown_and_fails_the_check_if_it_is_asked(
    sysfs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lost = int(2e9 * MAX_LOSS)
    port(sysfs, "mlx5_0", 1)
    port(sysfs, "mlx5_1", 1, port_xmit_discards=lost)
    assert main(["topology"]) == EXIT_DONE
    out = capsys.readouterr().out
    assert "2 InfiniBand ports, of which 1 lost more than 0.0001 % of the packets:" in out
    assert f"mlx5_1 port 1: {lost:,} of 1,000,000,000, 0.0002 %" in out
    assert main(["topology", "--max-ib-loss", "0.0001"]) == EXIT_NO
    assert main(["topology", "--max-ib-loss", "0.01"]) == EXIT_DONE
    assert "none lost more than 0.01 % of its packets" in capsys.readouterr().out
    assert main(["topology", "--json"]) == EXIT_DONE
    ports = json.loads(capsys.readouterr().out)["infiniband"]
    assert [(item["device"], item["lost"], item["ok"]) for item in ports] == [
        ("mlx5_0", 0, True),
        ("mlx5_1", lost, False),
    ]


def test_without_ports_nothing_is_said_and_a_file_has_none(
    sysfs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["topology"]) == EXIT_DONE
    assert "InfiniBand" not in capsys.readouterr().out
    port(sysfs, "mlx5_0", 1)
    assert main(["topology", "--file", str(MATRIX), "--json"]) == EXIT_DONE
    assert json.loads(capsys.readouterr().out)["infiniband"] is None
    assert main(["topology", "--file", str(MATRIX), "--max-ib-loss", "1"]) == EXIT_USAGE


@pytest.mark.parametrize("percent", ["-1", "101", "x", "nan"])
def test_a_percentage_is_one(percent: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["topology", f"--max-ib-loss={percent}"])
    assert "0 to 100 percent" in capsys.readouterr().err
