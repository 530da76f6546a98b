"""`isocost fake-node` as a process: it is there quickly, stops cleanly, and says what is wrong."""

from __future__ import annotations

import os
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from isocost.fake.hardware import gpu_uuids
from isocost.fake.machine import agent_environment

DEADLINE_S = 30.0


def started(*arguments: str) -> AbstractContextManager[subprocess.Popen[str]]:
    return running([sys.executable, "-m", "isocost.cli.main", "fake-node", *arguments])


@contextmanager
def running(command: list[str]) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONIOENCODING": "ascii"},
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


@pytest.mark.parametrize("sink", ["> /dev/full", ">&-"])
def test_that_nobody_reads_where_it_listens_does_not_end_it(sink: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = f'exec "$0" -m isocost.cli.main fake-node --listen 127.0.0.1:{port} {sink}'
    with running(["bash", "-c", command, sys.executable]) as process:
        until_s = time.monotonic() + DEADLINE_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except ConnectionRefusedError:
                assert process.poll() is None and time.monotonic() < until_s
        process.send_signal(signal.SIGTERM)
        assert outcome(process) == (0, "")


def test_a_name_that_the_output_cannot_spell_is_shown_without_its_letters() -> None:
    with started("--name=é\x1b[2J", "--listen=127.0.0.1:0") as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("fake node ?\\x1b[2J listens on 127.0.0.1:")
        process.send_signal(signal.SIGTERM)
        assert outcome(process) == (0, "")


def test_an_ipv6_address_is_shown_in_brackets() -> None:
    with started("--listen=[::1]:0") as process:
        assert process.stdout is not None
        assert " listens on [::1]:" in process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        assert outcome(process) == (0, "")


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


def test_it_tells_the_environment_of_its_machines_agent_and_the_uuids(tmp_path: Path) -> None:
    arguments = ("--name=n7", "--listen=127.0.0.1:0", "--gpu-count=2", "--machine", str(tmp_path))
    with started(*arguments) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(2)]
        process.send_signal(signal.SIGTERM)
        assert outcome(process) == (0, "")
    environment = agent_environment(tmp_path)
    for key in ("LD_LIBRARY_PATH", "ISOCOST_FAKE_NVML"):
        assert f" {key}={environment[key]} " in lines[0]
    assert lines[1].endswith(f": {', '.join(gpu_uuids('n7', 0, 2))}\n")


def test_a_name_that_can_name_no_file_is_refused_with_a_machine(tmp_path: Path) -> None:
    with started("--name=a/b", "--machine", str(tmp_path)) as process:
        status, errors = outcome(process)
    assert status == 2 and "--name: 'a/b' is not allowed" in errors
