"""The comparison itself, on a capture of nvidia-smi and the library without a GPU."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from tests.device import sample_beside_nvidia_smi as script
from tests.unit.telemetry.captured_machines import machine_state, said_by_csv
from tests.unit.telemetry.fake_gpus import FakeGpus, build_library

CAPTURE = "nvidia-smi-single-gpu/h100-80gb-hbm3/load-query-gpu.csv"
#: Answers any --query-gpu from the capture, without units.
STAND_IN = f"""#!{sys.executable}
import json, sys
said = json.load(open({{file!r}}))
query = next(a for a in sys.argv if a.startswith("--query-gpu=")).partition("=")[2].split(",")
cells = [next(v for k, v in said.items() if k.split(" [")[0] == name) for name in query]
print(", ".join(cell if cell.startswith("[") else cell.split(" ")[0] for cell in cells))
"""


@pytest.fixture
def gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeGpus:
    build_library()
    (said,) = said_by_csv(CAPTURE)
    file = tmp_path / "said.json"
    file.write_text(json.dumps(said))
    command = tmp_path / "bin" / "nvidia-smi"
    command.parent.mkdir()
    command.write_text(STAND_IN.format(file=str(file)))
    command.chmod(0o755)
    fake = FakeGpus(tmp_path)
    fake.set(machine_state([said]))
    for name in ("LD_LIBRARY_PATH", "ISOCOST_FAKE_NVML", "PYTHONPATH"):
        monkeypatch.setenv(name, fake.environment[name])
    monkeypatch.setenv("PATH", f"{command.parent}{os.pathsep}{os.environ['PATH']}")
    return fake


@pytest.mark.usefixtures("gpus")
def test_what_both_say_agrees(capsys: pytest.CaptureFixture[str]) -> None:
    assert script.main() == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[1:]]
    assert len(rows) == len(script.FIELDS) and all(len(row) == 4 for row in rows)
    told = {row[1]: (row[2], row[3]) for row in rows}
    assert told["memory.total"] == ("81559", "81559")
    assert told["temperature.gpu"][0] == told["temperature.gpu"][1]


def test_a_field_that_differs_and_a_gpu_that_is_missing_fail(
    gpus: FakeGpus, capsys: pytest.CaptureFixture[str]
) -> None:
    (said,) = said_by_csv(CAPTURE)
    name = str(machine_state([said])["gpus"])
    gpus.set({f"{name}.pcie_width": 8})
    assert script.main() == 1
    (bad,) = [line for line in capsys.readouterr().out.splitlines() if "DIFFERS" in line]
    assert bad.split()[1:] == ["pcie.link.width.current", "8", "16", "DIFFERS"]
    gpus.set({"gpus": ""})
    assert script.main() == 1
    assert "MISSING" in capsys.readouterr().out
