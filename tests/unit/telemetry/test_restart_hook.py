"""The restart command: once per drop, never two at once, in bounds of time and output."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import psutil
import pytest

from isocost.telemetry import operator_command, restart_hook
from isocost.telemetry.cuda_handles import HandleDrop
from isocost.telemetry.restart_hook import RestartHook
from tests.integration.harness.wait import wait_until

DROP = (HandleDrop(4711, 3, 58),)
OTHER = (HandleDrop(4711, 3, 58), HandleDrop(4712, 0, 40))


@asynccontextmanager
async def running(hook: RestartHook) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(hook.run())
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait([task])


@pytest.fixture(autouse=True)
def log_all(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")


def shell(script: str) -> RestartHook:
    return RestartHook("n1", ("/bin/sh", "-c", script))


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def alive(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def said(caplog: pytest.LogCaptureFixture, text: str) -> Callable[[], bool]:
    return lambda: text in caplog.messages


async def test_the_command_knows_what_happened(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    hook = shell(f'env | grep ^ISOCOST_ | sort >{tmp_path}/env; echo restarted; test -n "$PATH"')
    async with running(hook):
        hook.note("n1@17", OTHER)
        await wait_until(said(caplog, "n1: the restart command is done"), "it ran")
    assert lines(tmp_path / "env") == [
        "ISOCOST_INSTANCE=n1@17",
        "ISOCOST_NODE=n1",
        "ISOCOST_PIDS=4711 4712",
        "ISOCOST_REASON=process 4711 has 3 of 58 CUDA handles left; "
        "process 4712 has 0 of 40 CUDA handles left",
    ]
    assert caplog.messages == [
        "n1: process 4711 has 3 of 58 CUDA handles left; "
        "process 4712 has 0 of 40 CUDA handles left: the restart command runs",
        "n1: restart command: restarted",
        "n1: the restart command is done",
    ]


async def test_arguments_reach_the_command_as_they_are(caplog: pytest.LogCaptureFixture) -> None:
    hook = RestartHook("n1", ("/bin/echo", "a b; $HOME", "*"))
    async with running(hook):
        hook.note("n1@17", DROP)
        await wait_until(said(caplog, "n1: restart command: a b; $HOME *"), "it ran")


async def test_it_runs_once_per_drop(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    runs = tmp_path / "runs"
    hook = shell(f"echo $ISOCOST_INSTANCE >>{runs}")
    done = "n1: the restart command is done"
    async with running(hook):
        for epoch in (17, 17, 18, 19):
            hook.note(f"n1@{epoch}", DROP)
            await asyncio.sleep(0)
            await wait_until(said(caplog, done), "the first run is done")
        hook.note("n1@19", ())
        hook.note("n1@20", DROP)
        await wait_until(lambda: caplog.messages.count(done) == 2, "the second run is done")
        hook.note("n1@20", OTHER)
        await asyncio.sleep(0)
    assert sum(text.endswith("the restart command runs") for text in caplog.messages) == 2
    assert lines(runs) == ["n1@17", "n1@20"]


async def test_a_drop_during_a_run_waits_for_its_end(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    runs, go_on = tmp_path / "runs", tmp_path / "go-on"
    hook = shell(
        f"echo begin $ISOCOST_INSTANCE >>{runs}; "
        f"until test -e {go_on}; do sleep 0.02; done; echo end $ISOCOST_INSTANCE >>{runs}"
    )
    done = "n1: the restart command is done"
    async with running(hook):
        hook.note("n1@1", DROP)
        await wait_until(lambda: lines(runs) == ["begin n1@1"], "the first runs")
        hook.note("n1@1", ())
        hook.note("n1@2", DROP)
        hook.note("n1@2", ())
        hook.note("n1@3", DROP)
        go_on.touch()
        await wait_until(lambda: caplog.messages.count(done) == 2, "both are done")
        go_on.unlink()
        hook.note("n1@3", ())
        hook.note("n1@4", DROP)
        await wait_until(lambda: lines(runs)[-1] == "begin n1@4", "the third runs")
        hook.note("n1@4", ())
        hook.note("n1@5", DROP)
        hook.note("n1@5", ())
        go_on.touch()
        await wait_until(lambda: caplog.messages.count(done) == 3, "the third is done")
        hook.note("n1@6", DROP)
        await wait_until(lambda: caplog.messages.count(done) == 4, "the last is done")
    order = [1, 3, 4, 6]
    assert lines(runs) == [f"{what} n1@{epoch}" for epoch in order for what in ("begin", "end")]


async def test_only_the_end_of_the_output_is_told(caplog: pytest.LogCaptureFixture) -> None:
    hook = shell("seq 100000; printf 'caf\\303\\251 \\033[2J\\377\\n' >&2; exit 3")
    async with running(hook):
        hook.note("n1@17", DROP)
        await wait_until(said(caplog, "n1: the restart command failed: exit code 3"), "it ended")
    told = [text for text in caplog.messages if text.startswith("n1: restart command: ")]
    assert len(told) == operator_command.OUTPUT_LINES
    assert told[0] == "n1: restart command: 99982"
    assert told[-1] == "n1: restart command: caf\u00e9 \ufffd[2J\ufffd"


async def test_a_line_without_end_is_bounded(caplog: pytest.LogCaptureFixture) -> None:
    hook = shell("head -c 10000000 /dev/zero | tr '\\0' x")
    async with running(hook):
        hook.note("n1@17", DROP)
        await wait_until(said(caplog, "n1: the restart command is done"), "it ended")
    assert caplog.messages[1] == "n1: restart command: " + "x" * operator_command.OUTPUT_BYTES


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (("/no/such/command",), "No such file or directory"),
        (("/etc/passwd",), "Permission denied"),
        (("/bin/echo", "a\0b"), "embedded null byte"),
    ],
)
async def test_what_does_not_start_is_told_and_the_next_drop_is_tried(
    command: tuple[str, ...], why: str, caplog: pytest.LogCaptureFixture
) -> None:
    hook = RestartHook("n1", command)

    def failures() -> int:
        return sum("did not start" in text and why in text for text in caplog.messages)

    async with running(hook):
        for count in (1, 2):
            hook.note("n1@17", DROP)
            await wait_until(lambda count=count: failures() == count, "it is told")
            hook.note("n1@17", ())


async def test_a_command_that_was_killed_failed(caplog: pytest.LogCaptureFixture) -> None:
    hook = shell("kill -9 $$")
    async with running(hook):
        hook.note("n1@17", DROP)
        await wait_until(said(caplog, "n1: the restart command failed: signal 9"), "it is told")


#: Deaf to SIGTERM, as its child is; tells both pids.
DEAF = "trap '' TERM; sleep 1000 & echo $$ $! >{pids}.new; mv {pids}.new {pids}; wait"


async def started(pids: Path) -> list[int]:
    await wait_until(lambda: lines(pids), "the command runs")
    return [int(pid) for pid in lines(pids)[0].split()]


async def test_past_the_limit_its_whole_group_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(restart_hook, "LIMIT_S", 1.5)
    monkeypatch.setattr(operator_command, "GRACE_S", 0.2)
    hook = shell("echo deaf; " + DEAF.format(pids=tmp_path / "pids"))
    async with running(hook):
        hook.note("n1@17", DROP)
        pids = await started(tmp_path / "pids")
        failed = "n1: the restart command failed: it took longer than 1.5 s and was ended"
        await wait_until(said(caplog, failed), "it is told")
    await wait_until(lambda: not any(map(alive, pids)), "both are gone")
    assert "n1: restart command: deaf" in caplog.messages


async def test_past_the_limit_it_can_tidy_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(restart_hook, "LIMIT_S", 1.5)
    ready = tmp_path / "ready"
    hook = shell(f"trap 'echo tidied; exit 0' TERM; touch {ready}; while :; do sleep 0.02; done")
    async with running(hook):
        hook.note("n1@17", DROP)
        await wait_until(said(caplog, "n1: restart command: tidied"), "it had the time")
    assert "it took longer than 1.5 s" in caplog.messages[-1] and ready.exists()


async def test_an_agent_that_ends_takes_the_command_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operator_command, "GRACE_S", 0.2)
    hook = shell(DEAF.format(pids=tmp_path / "pids"))
    async with running(hook) as task:
        hook.note("n1@17", DROP)
        pids = await started(tmp_path / "pids")
        assert all(map(alive, pids))
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
    await wait_until(lambda: not any(map(alive, pids)), "both are gone")


async def test_what_it_leaves_running_holds_nothing_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """An engine in the background that has the command's output open."""
    monkeypatch.setattr(operator_command, "OUTPUT_PATIENCE_S", 0.1)
    hook = shell(f"sleep 1000 & echo $! >{tmp_path}/pid; echo started")
    async with running(hook):
        hook.note("n1@17", DROP)
        await wait_until(said(caplog, "n1: the restart command is done"), "it is done")
    pid = int(lines(tmp_path / "pid")[0])
    assert alive(pid) and "n1: restart command: started" in caplog.messages
    os.kill(pid, signal.SIGKILL)
