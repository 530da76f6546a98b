"""The operators' commands against the real admin application."""

from __future__ import annotations

import getpass
import json
import socket
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from isocost.cli import drain
from isocost.cli.main import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_NO, EXIT_USAGE, main
from isocost.config import ControlPlaneConfig
from isocost.model import ABSENT
from tests.unit.cli.control_plane_app import Served, served
from tests.unit.hardware_samples import gpu, xids

WHO = f"{getpass.getuser()}@{socket.gethostname()}"


@pytest.fixture
def control_plane(tmp_path: Path) -> Iterator[Served]:
    with served(ControlPlaneConfig(state_dir=str(tmp_path))) as running:
        yield running


Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(control_plane: Served, capsys: pytest.CaptureFixture[str]) -> Run:
    """Exit code, standard output and standard error of a command."""

    def command(*arguments: str) -> tuple[int, str, str]:
        code = main([*arguments, "--http", control_plane.http])
        told = capsys.readouterr()
        return code, told.out, told.err

    return command


@pytest.fixture
def polls(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], None]]:
    """What happens at each wait of `isocost drain --wait`, instead of time passing."""
    steps: list[Callable[[], None]] = []

    def sleep(_: float) -> None:
        steps.pop(0)()

    monkeypatch.setattr(drain.time, "sleep", sleep)
    return steps


def rows(run: Run) -> dict[str, dict[str, object]]:
    code, out, _ = run("nodes", "--json")
    assert code == 0
    return {row["name"]: row for row in json.loads(out)["nodes"]}


def test_nodes_lists_every_node_with_its_state_and_what_was_set_by_hand(
    run: Run, control_plane: Served
) -> None:
    run("weight", "gpu-1", "--weight", "0.25", "--why", "too hot")
    run("drain", "gpu-2")
    control_plane.tick(gpu_2=4)
    code, out, _ = run("nodes")
    heading, first, second, third = out.splitlines()
    assert code == 0
    assert heading.split()[:6] == ["NODE", "RACK", "ADDRESS", "STATE", "REASON", "SINCE"]
    assert "serving   ok" in first
    assert f"weight 0.25 ({WHO}, 0 s ago: too hot)" in first
    assert "draining  draining  0 s" in second
    assert second.endswith(f"drain ({WHO}, 0 s ago)")
    assert "(" not in third


def test_nodes_shows_what_is_wrong_with_the_hardware(run: Run, control_plane: Served) -> None:
    control_plane.gpus["gpu-1"] = (gpu(),)
    control_plane.gpus["gpu-2"] = (gpu(xids(31, 79), uuid="GPU-x", links=0.75),)
    control_plane.tick()
    heading, first, second, _ = run("nodes")[1].splitlines()
    column = heading.index("HEALTH")
    assert first[column:].split()[0] == "-"
    assert second[column:].startswith("xid_fatal 79 (+2)")
    assert "ejected  hardware" in second
    found = rows(run)["gpu-2"]
    assert found["reason"] == "hardware"
    assert [
        (item["row"], item["action"], item["gpu"], item["value"])
        for item in found["health_findings"]  # type: ignore[attr-defined]
    ] == [
        ("xid_fatal", "eject", "GPU-x", 79.0),
        ("nvlinks_down", "lower", "GPU-x", 0.75),
        ("xid_application", "ignore", "GPU-x", 31.0),
    ]


def test_health_that_is_not_known_is_not_shown_as_none(run: Run, control_plane: Served) -> None:
    control_plane.gpus |= {
        "gpu-1": (gpu(), gpu(None, uuid="GPU-1")),
        "gpu-2": (gpu(xids(13), links=ABSENT),),
        "gpu-3": (),
    }
    control_plane.tick()
    assert shown_health(run) == ["?", "xid_application 13", "-"]


def test_an_xid_that_nobody_judged_is_shown_last_of_its_like(
    run: Run, control_plane: Served
) -> None:
    control_plane.gpus |= {
        "gpu-1": (gpu(xids(999, 31)),),
        "gpu-2": (gpu(xids(999)),),
        "gpu-3": (gpu(xids(999, 31), links=0.5),),
    }
    control_plane.tick()
    assert shown_health(run) == [
        "xid_application 31 (+1)",
        "xid_other 999",
        "nvlinks_down 0.5 (+2)",
    ]


def shown_health(run: Run) -> list[str]:
    heading, *lines = run("nodes")[1].splitlines()
    begin, end = heading.index("HEALTH"), heading.index("DOUBTED")
    return [line[begin:end].strip() for line in lines]


def test_nodes_shows_settings_of_nodes_that_are_not_there_until_they_are_removed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = {"gone": {"drain": {"who": "ana", "at_unix_s": 0.0, "why": "sold"}}}
    content = {"schema": "isocost.manual/1", "nodes": kept}
    (tmp_path / "manual.json").write_text(json.dumps(content))
    with served(ControlPlaneConfig(state_dir=str(tmp_path))) as running:
        assert main(["nodes", "--http", running.http]) == 0
        last = capsys.readouterr().out.splitlines()[-1]
        assert last.startswith("not there, but set by hand: gone: drain (ana, ")
        assert last.endswith(" ago: sold)")
        assert main(["undrain", "gone", "--http", running.http]) == 0
        assert main(["drain", "gone", "--http", running.http]) == EXIT_USAGE


def test_a_drain_takes_the_weight_and_undrain_gives_it_back_in_a_ramp(
    run: Run, control_plane: Served
) -> None:
    assert run("drain", "gpu-1", "gpu-3", "--why", "firmware")[:2] == (
        0,
        "gpu-1: gets no new requests\ngpu-3: gets no new requests\n",
    )
    control_plane.tick()
    found = rows(run)
    assert [found[f"gpu-{n}"]["weight"] for n in (1, 2, 3)] == [0.0, 1.0, 0.0]
    assert found["gpu-1"]["drain"]["who"] == WHO  # type: ignore[index]
    assert found["gpu-1"]["drain"]["why"] == "firmware"  # type: ignore[index]
    assert run("undrain", "gpu-1", "gpu-3")[0] == 0
    control_plane.tick()
    assert rows(run)["gpu-1"]["state"] == "warming"


def test_an_unknown_name_drains_nobody(run: Run, control_plane: Served) -> None:
    code, _, err = run("drain", "gpu-1", "gpu-9")
    assert code == EXIT_USAGE
    assert "there is no node 'gpu-9'; known: gpu-1, gpu-2, gpu-3" in err
    control_plane.tick()
    assert rows(run)["gpu-1"]["state"] == "serving"


def test_drain_waits_with_progress_until_the_streams_have_ended(
    run: Run, control_plane: Served, polls: list[Callable[[], None]]
) -> None:
    polls += [
        lambda: control_plane.tick(gpu_1=3),
        lambda: control_plane.tick(gpu_1=3),
        lambda: control_plane.tick(gpu_1=1),
        lambda: control_plane.tick(2.0),
    ]
    code, out, _ = run("drain", "gpu-1", "--wait")
    assert code == 0
    assert out.splitlines() == [
        "gpu-1: gets no new requests",
        "gpu-1: 0 open requests",
        "gpu-1: 3 open requests",
        "gpu-1: 1 open request",
        "gpu-1: drained",
    ]


def test_a_drain_that_lasts_too_long_answers_no(
    run: Run, control_plane: Served, polls: list[Callable[[], None]]
) -> None:
    def ten_minutes_on() -> None:
        pipeline = control_plane.control_plane._pipeline
        note = pipeline.manual.drains["gpu-1"]
        aged = replace(note, at_unix_s=note.at_unix_s - 601.0)
        pipeline.manual = pipeline.manual.drained("gpu-1", aged)
        control_plane.tick(gpu_1=2)

    polls.append(ten_minutes_on)
    code, out, _ = run("drain", "gpu-1", "--wait")
    assert code == EXIT_NO
    assert "time-out with 2 open requests; nothing is cut, and the drain goes on" in out
    control_plane.tick(gpu_1=2)
    assert rows(run)["gpu-1"]["state"] == "draining"


def test_a_drain_that_somebody_ends_answers_no(
    run: Run, control_plane: Served, polls: list[Callable[[], None]]
) -> None:
    def undrain() -> None:
        main(["undrain", "gpu-1", "--http", control_plane.http])
        control_plane.tick()

    polls.append(undrain)
    code, out, _ = run("drain", "gpu-1", "--wait")
    assert code == EXIT_NO
    assert "somebody ended the drain" in out


def test_an_interrupted_wait_leaves_the_drain_and_says_so(
    run: Run, control_plane: Served, polls: list[Callable[[], None]]
) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    polls.append(interrupt)
    code, _, err = run("drain", "gpu-1", "--wait")
    assert code == EXIT_INTERRUPTED
    assert "the drain goes on; to end it: isocost undrain gpu-1" in err
    control_plane.tick()
    assert rows(run)["gpu-1"]["state"] == "draining"


def test_weight_sets_and_clears_and_refuses_nonsense(run: Run, control_plane: Served) -> None:
    assert run("weight", "gpu-1", "--entropy", "inf")[:2] == (0, "gpu-1: entropy inf\n")
    control_plane.tick()
    assert rows(run)["gpu-1"]["entropy"] == "inf"
    assert run("weight", "gpu-1", "--clear")[0] == 0
    control_plane.tick()
    assert rows(run)["gpu-1"]["entropy"] != "inf"
    code, _, err = run("weight", "gpu-1", "--weight", "7")
    assert code == EXIT_USAGE
    assert "weight: '7' is not allowed; it must be 0, or a number from 1.18e-38 to 1" in err


@pytest.mark.parametrize(
    "command", [["nodes"], ["drain", "a"], ["undrain", "a"], ["weight", "a", "--clear"]]
)
def test_no_control_plane_is_told_with_its_address(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{held.getsockname()[1]}"
        assert main([*command, "--http", address]) == EXIT_FAILED
    assert f"no control plane answers at {address}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("in_flight", "running", "waiting", "text"),
    [
        (1, 1, 0, "1 open request"),
        (3, None, None, "3 open requests"),
        (0, 2, 1, "0 open requests at the gateways, 3 requests in the engine"),
        (0, None, None, "0 open requests at the gateways"),
        (None, 2, None, "2 requests in the engine"),
        (None, 0, 0, "open requests not known: a gateway is silent"),
    ],
)
def test_the_progress_of_a_drain_tells_what_is_open_and_what_is_not_known(
    in_flight: int | None, running: float | None, waiting: float | None, text: str
) -> None:
    row = {"in_flight": in_flight, "running": running, "waiting": waiting}
    told = drain._progress({"reason": "draining", "drain": {}, **row})
    assert told == (text, None)


def test_undraining_a_wrong_name_leaves_the_others_drained(run: Run) -> None:
    name = next(iter(rows(run)))
    assert run("drain", name)[0] == 0
    code, _, told = run("undrain", name, "nope")
    assert code == EXIT_USAGE
    assert "no node 'nope'" in told
    assert rows(run)[name]["drain"] is not None


def test_why_shows_the_terms_of_a_node(run: Run) -> None:
    code, out, _ = run("nodes", "--why", "gpu-2")
    assert code == 0
    first, *lines = out.splitlines()
    assert first == "gpu-2: serving (ok), policy equal_cost"
    assert any(line.split()[:1] == ["free_vram_share"] for line in lines)
    assert any(line.startswith("predicted time ") for line in lines)
    code, out, _ = run("nodes", "--why", "gpu-2", "--json")
    assert code == 0 and json.loads(out)["weight"]["terms"][0]["term"] == "free_vram_share"
    code, _, err = run("nodes", "--why", "gpu-9")
    assert code == EXIT_USAGE and "no node 'gpu-9'" in err
    for name in ("", "\udcff"):
        code, _, err = run("nodes", "--why", name)
        assert code == EXIT_USAGE and "Traceback" not in err and err
    run("weight", "gpu-2", "--entropy", "inf", "--why", "fan")
    assert f"by hand: entropy inf ({WHO}, 0 s ago: fan)" in run("nodes", "--why", "gpu-2")[1]
