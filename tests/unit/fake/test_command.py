"""`isocost fake-node` as a process: it is there quickly, stops cleanly, and says what is wrong."""

from __future__ import annotations

import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

DEADLINE_S = 30.0


@contextmanager
def started(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "isocost.cli.main", "fake-node", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def outcome(process: subprocess.Popen[str]) -> tuple[int, str]:
    _, errors = process.communicate(timeout=DEADLINE_S)
    return process.returncode, errors


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_says_when_it_listens_and_stops_at_a_signal(number: signal.Signals) -> None:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with started("--name=n7", "--listen=127.0.0.1:0", "--gpu-kind=A100") as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        process.send_signal(number)
        assert outcome(process) == (0, "")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    port = int(line.split("127.0.0.1:")[1].split()[0])
    assert line == f"fake node n7 listens on 127.0.0.1:{port} (1 x A100, llama-3.1-8b)\n"
    # Eight of them start within a second or two of each other in a demo on two cores.
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 0.6


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_many_nodes_of_one_process_have_names_and_ports_of_their_own_and_stop_together(
    number: signal.Signals,
) -> None:
    with started("--name=n", "--listen=127.0.0.1:0", "--count=8", "--model=qwen2.5-7b") as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(8)]
        ports = {int(line.split("127.0.0.1:")[1].split()[0]) for line in lines}
        for port in ports:
            socket.create_connection(("127.0.0.1", port)).close()
        process.send_signal(number)
        assert outcome(process) == (0, "")
    assert [line.split()[2] for line in lines] == [f"n-{index}" for index in range(1, 9)]
    assert len(ports) == 8


def test_many_nodes_take_consecutive_ports_and_all_or_none_of_them_run() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with started(f"--listen=127.0.0.1:{port - 1}", "--count=2") as process:
            code, errors = outcome(process)
    assert code == 3
    assert "is in use" in errors


def test_a_taken_port_ends_it_with_code_3_and_the_flag() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with started(f"--listen=127.0.0.1:{port}") as process:
            code, errors = outcome(process)
    assert code == 3
    assert f"127.0.0.1:{port} is in use" in errors and "--listen" in errors


@pytest.mark.parametrize(
    ("argument", "allowed"),
    [
        ("--listen=127.0.0.1:70000", "a port between 0 and 65535"),
        ("--gpu-kind=H200", "H100"),
        ("--gpu-count=0", "an integer between 1 and 64"),
        ("--stream-chunks=1", "an integer between 2 and 1000000"),
        ("--count=0", "an integer between 1 and 1000"),
        ("--model=gpt-9", "llama-3.1-8b"),
        ("--metrics=tgi", "sglang"),
    ],
)
def test_a_bad_flag_ends_it_with_code_2_and_what_is_allowed(argument: str, allowed: str) -> None:
    with started(argument) as process:
        code, errors = outcome(process)
    assert code == 2
    assert argument.split("=", maxsplit=1)[0] in errors and allowed in errors


def test_more_nodes_than_ports_are_refused() -> None:
    with started("--listen=127.0.0.1:65530", "--count=7") as process:
        code, errors = outcome(process)
    assert code == 2
    assert "--count" in errors and "at most 6" in errors
