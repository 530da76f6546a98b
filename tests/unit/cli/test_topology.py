"""`isocost topology`: its answers are exit codes, with the reason for a no."""

from __future__ import annotations

import io
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from isocost.cli import topology as command
from isocost.cli.main import main
from isocost.telemetry.topology import local
from isocost.telemetry.topology.facts import NvmlAnswer
from tests.unit.telemetry.fake_gpus import ROOT, FakeGpus, build_library
from tests.unit.telemetry.nvlink_machines import linked, switched
from tests.unit.telemetry.topologies import FILES, joined

PAIRS = FILES / "a100pcie-8x-nv12-pairs-2x4.txt"
H200 = FILES / "h200-8x-nv18-10nic.txt"
A6000 = FILES / "a6000-3x-nv4-pair.txt"
PCIE = FILES / "pcie-8x-pix-phb-sys-2x4.txt"
NCCL = FILES / "azure-ndv5-topo.xml"


def two_groups_of_four() -> str:
    rows = ["\t".join(["", *(f"GPU{index}" for index in range(8))])]
    for one in range(8):
        cells = (
            "X" if one == other else "NV12" if one // 4 == other // 4 else "SYS"
            for other in range(8)
        )
        rows.append("\t".join([f"GPU{one}", *cells]))
    return "\n".join(rows)


def test_gpus_that_reach_each_other_only_through_others_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "topo.txt"
    file.write_text("GPU0 GPU1 GPU2\nGPU0 X NV2 SYS\nGPU1 NV2 X NV2\nGPU2 SYS NV2 X\n")
    assert main(["topology", "--file", str(file), "--tp", "3"]) == 1
    said = capsys.readouterr().out
    assert "GPU0-2 reach each other over NVLinks, not every two directly" in said
    assert "1 of 3 pairs with no NVLinks:\n  GPU0 - GPU2 SYS\n" in said


def test_standard_input_that_is_closed_cannot_be_read(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    assert main(["topology", "--file", "-"]) == 3
    assert "standard input: it is closed" in capsys.readouterr().err


def as_json(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out)


def test_eight_gpus_that_are_two_groups_of_four_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "topo.txt"
    file.write_text(two_groups_of_four())
    assert main(["topology", "--file", str(file), "--tp", "8"]) == 1
    said = capsys.readouterr().out
    assert "8 GPUs: not one NVLink group but 2: GPU0-3, GPU4-7" in said
    assert "16 of 28 pairs with no NVLinks:\n  GPU0 - GPU4-7 SYS\n" in said
    assert "use instead: 2 inference units of degree 4: GPU0-3, GPU4-7" in said


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ([H200], 0, "8 GPUs: NVLinks between every two\n\nGPU0-7, NV18 between every two:\n"),
        ([H200], 0, "  GPU3   NUMA 0  CPUs 0-63,128-191  NICs mlx5_0, mlx5_1, mlx5_2 (PIX)\n"),
        ([H200, "--tp", "8", "--min-nvlinks", "18"], 0, "1 inference unit of degree 8: GPU0-7"),
        ([H200, "--tp", "3"], 0, "degree 3: GPU0-2, GPU4-6; GPU3,7 left over"),
        ([H200, "--tp", "16"], 1, "no inference unit of degree 16: there are 8 GPUs\nuse instead"),
        ([H200, "--min-nvlinks", "19"], 1, "28 pairs with fewer than 19 NVLinks:\n  GPU0 - GPU1-7"),
        ([PAIRS, "--tp", "2"], 0, "4 inference units of degree 2: GPU0-1, GPU2-3, GPU4-5, GPU6-7"),
        ([PAIRS], 0, "  GPU2-3  NODE    -       SYS     SYS\n"),
        ([PAIRS, "--gpus", "2-3"], 0, "1 inference unit of degree 2: GPU2-3"),
        ([PAIRS, "--gpus", "1,2"], 1, "1 of 1 pair with no NVLinks:\n  GPU1 - GPU2 NODE"),
        ([PAIRS, "--gpus", "0-3", "--tp", "2"], 0, "2 inference units of degree 2"),
        ([A6000], 0, "3 GPUs: NVLinks between every two of GPU0-1 only"),
        ([A6000], 0, "GPU2 alone, without NVLinks:"),
        ([A6000, "--min-nvlinks", "4"], 0, "GPU0-1, NV4 between every two"),
        ([A6000, "--min-nvlinks", "8"], 1, "1 pair with fewer than 8 NVLinks:\n  GPU0 - GPU1 NV4"),
        ([PCIE], 0, "8 GPUs: no two have NVLinks between them"),
        ([PCIE, "--min-nvlinks", "1"], 1, "no two GPUs have NVLinks between them"),
        ([PCIE, "--tp", "1"], 0, "8 inference units of degree 1"),
        ([FILES / "l40s-1x.txt", "--tp", "1"], 0, "1 inference unit of degree 1: GPU0"),
        ([FILES / "l40s-1x.txt"], 0, "1 GPU: nothing to join\n\nGPU0:\n  GPU0   NUMA 0"),
        ([NCCL], 0, "8 GPUs; the file tells only the ways over PCIe, not the NVLinks"),
    ],
)
def test_answers(
    arguments: list[object], code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["topology", "--file", *map(str, arguments)]) == code
    assert said in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--file", "no-such-file"], 3, "cannot read no-such-file: No such file"),
        (["--file", "."], 3, "cannot read .: Is a directory"),
        (["--file", str(FILES / "4gpu-topo-p2p-pairs.txt")], 3, "line 2: 'OK' between GPU0"),
        (["--file", str(NCCL), "--tp", "8"], 3, "does not tell where the NVLinks are"),
        (["--file", str(NCCL), "--min-nvlinks", "1"], 3, "does not tell where the NVLinks are"),
        (["--file", str(H200), "--gpus", "7-9"], 2, "no GPU8-9 here; there are GPU0-7"),
    ],
)
def test_what_could_not_run_is_no_answer(
    arguments: list[str], code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["topology", *arguments]) == code
    captured = capsys.readouterr()
    assert said in captured.err and captured.out == ""


@pytest.mark.parametrize(
    "arguments",
    [
        ["--tp", "0"],
        ["--tp", "-1"],
        ["--tp", "two"],
        ["--min-nvlinks", "0"],
        ["--gpus", "3-1"],
        ["--gpus", ""],
        ["--gpus", "0,,1"],
    ],
)
def test_wrong_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["topology", "--file", str(H200), *arguments])
    assert caught.value.code == 2
    assert "usage: isocost topology" in capsys.readouterr().err


def test_standard_input(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(PAIRS.read_bytes())))
    assert main(["topology", "--file", "-", "--tp", "4"]) == 1
    assert "use instead: 4 inference units of degree 2" in capsys.readouterr().out


def test_a_file_without_end_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "large"
    file.write_bytes(bytes(command._MAX_BYTES + 1))
    assert main(["topology", "--file", str(file)]) == 3
    assert "more than 1,048,576 bytes" in capsys.readouterr().err


def test_json_has_every_pair_and_the_reason(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topology", "--file", str(PAIRS), "--gpus", "0-3", "--json"]) == 1
    answer = as_json(capsys)
    assert answer["ok"] is False and answer["nvlinks_known"] is True
    assert answer["groups"] == [{"gpus": [0, 1], "nvlinks": 12}, {"gpus": [2, 3], "nvlinks": 12}]
    assert answer["not_linked"] == [[0, 2], [0, 3], [1, 2], [1, 3]]
    assert len(answer["links"]) == 6
    assert answer["links"][0] == {"gpus": [0, 1], "kind": "NVLINK", "nvlinks": 12}
    assert answer["proposal"] == {"degree": 4, "units": [], "unused": [0, 1, 2, 3]}
    assert answer["instead"] == {"degree": 2, "units": [[0, 1], [2, 3]], "unused": []}
    assert answer["gpus"][0]["cpus"] == "0-31,64-95" and answer["gpus"][0]["numa_nodes"] == [0]


def test_json_of_a_yes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topology", "--file", str(H200), "--tp", "8", "--json"]) == 0
    answer = as_json(capsys)
    assert answer["ok"] is True and answer["instead"] is None and answer["weak"] == []
    assert answer["gpus"][1]["nearest_nics"] == [{"name": "mlx5_5", "link": "PIX"}]


def test_json_says_what_is_not_known(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topology", "--file", str(NCCL), "--json"]) == 0
    answer = as_json(capsys)
    assert answer["nvlinks_known"] is False and answer["proposal"] is None
    assert answer["groups"] is answer["not_linked"] is answer["weak"] is None
    assert {link["nvlinks"] for link in answer["links"]} == {None}


def fake_nvidia_smi(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    file = folder / "nvidia-smi"
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


@pytest.fixture
def no_nvml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """NVML cannot be loaded, also where there is one."""
    (tmp_path / "libnvidia-ml.so.1").write_text("no library")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "control_plane"))


@pytest.fixture
def gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeGpus:
    """This machine's GPUs; there is no nvidia-smi."""
    build_library()
    gpus = FakeGpus(tmp_path)
    for name in ("LD_LIBRARY_PATH", "ISOCOST_FAKE_NVML", "PYTHONPATH"):
        monkeypatch.setenv(name, gpus.environment[name])
    monkeypatch.setenv("PATH", str(tmp_path))
    return gpus


def test_without_a_file_nvml_is_asked(gpus: FakeGpus, capsys: pytest.CaptureFixture[str]) -> None:
    gpus.set(linked(8, joined((0, 1, 2, 3), (4, 5, 6, 7))))
    assert main(["topology", "--tp", "8"]) == 1
    said = capsys.readouterr().out
    assert said.startswith("from NVML\n8 GPUs: not one NVLink group but 2: GPU0-3, GPU4-7\n")
    assert "use instead: 2 inference units of degree 4: GPU0-3, GPU4-7" in said


def test_json_of_nvml(gpus: FakeGpus, capsys: pytest.CaptureFixture[str]) -> None:
    gpus.set({**switched(2, 18), "g1.mig": "1", "g0.ancestor.g1": "!3"})
    assert main(["topology", "--json"]) == 0
    answer = as_json(capsys)
    assert (answer["source"], answer["source_reason"]) == ("NVML", None)
    assert answer["links"] == [{"gpus": [0, 1], "kind": None, "nvlinks": 0}]
    assert [gpu["mig"] for gpu in answer["gpus"]] == [False, True]


def test_mig_and_a_way_that_is_not_known_are_shown(
    gpus: FakeGpus, capsys: pytest.CaptureFixture[str]
) -> None:
    gpus.set({**switched(2, 18), "g1.mig": "1", "g0.ancestor.g1": "!3"})
    assert main(["topology"]) == 0
    said = capsys.readouterr().out
    assert "GPU1   NUMA ?  MIG\n" in said and "  GPU0  -     ?\n" in said


def test_nvlinks_that_nvml_does_not_tell_are_no_answer(
    gpus: FakeGpus, capsys: pytest.CaptureFixture[str]
) -> None:
    gpus.set({**switched(2, 18), "g1.nvlink.0.active": "!999"})
    assert main(["topology", "--tp", "2"]) == 3
    assert "NVML does not tell where the NVLinks are" in capsys.readouterr().err
    assert main(["topology"]) == 0
    assert "2 GPUs; NVML tells only the ways over PCIe" in capsys.readouterr().out


def test_nvml_that_hangs_is_given_up(
    gpus: FakeGpus, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    gpus.set({**switched(2, 18), "g1.nvlink.0.active": "hang"})
    monkeypatch.setattr(command, "TIMEOUT_S", 1.0)
    assert main(["topology"]) == 3
    captured = capsys.readouterr()
    assert "NVML gave no answer in 1 s" in captured.err and captured.out == ""


@pytest.mark.usefixtures("no_nvml")
def test_without_nvml_nvidia_smi_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script = f'[ "$*" = "topo -m" ] && exec cat "{A6000}"'
    fake_nvidia_smi(tmp_path, script, monkeypatch)
    assert main(["topology", "--tp", "2"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("from nvidia-smi (NVML: NVML Shared Library Not Found)\n3 GPUs: ")
    assert "1 inference unit of degree 2: GPU0-1; GPU2 left over" in said


@pytest.mark.usefixtures("gpus")
def test_without_a_driver_nvidia_smi_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("ISOCOST_FAKE_NVML")
    fake_nvidia_smi(tmp_path, f'while read -r line; do echo "$line"; done < "{A6000}"', monkeypatch)
    assert main(["topology", "--json"]) == 0
    answer = as_json(capsys)
    assert answer["source"] == "nvidia-smi"
    assert answer["source_reason"] == "NVML: Driver Not Loaded"


@pytest.mark.usefixtures("no_nvml")
def test_neither_nvml_nor_nvidia_smi(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["topology"]) == 3
    said = capsys.readouterr().err
    assert "NVML: NVML Shared Library Not Found; cannot run nvidia-smi (No such file" in said
    assert "isocost topology --file topo.txt" in said


@pytest.mark.usefixtures("no_nvml")
def test_nvidia_smi_that_fails_is_quoted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake_nvidia_smi(tmp_path, "echo; echo 'Driver/library version mismatch'; exit 18", monkeypatch)
    assert main(["topology"]) == 3
    said = capsys.readouterr().err
    assert "nvidia-smi failed with 18: Driver/library version mismatch" in said


def test_nvidia_smi_that_hangs_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake_nvidia_smi(tmp_path, "exec sleep 60", monkeypatch)
    # Starting the process that asks NVML takes longer than this test should wait.
    monkeypatch.setattr(local, "_ask_nvml", lambda _: NvmlAnswer(unavailable="Driver Not Loaded"))
    monkeypatch.setattr(command, "TIMEOUT_S", 0.05)
    assert main(["topology"]) == 3
    said = capsys.readouterr().err
    assert "NVML: Driver Not Loaded; nvidia-smi gave no answer in 0.05 s" in said
