"""Nothing that was started outlives the demo, and nothing ends unnoticed."""

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from isocost.demo.processes import Processes
from isocost.errors import StartError

SLEEPER = [sys.executable, "-c", "import signal; signal.pause()"]
STUBBORN = [
    sys.executable,
    "-c",
    "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True)\n"
    "while True: signal.pause()",
]


def wait_for(condition: Callable[[], bool], deadline_s: float = 10.0) -> None:
    end_s = time.monotonic() + deadline_s
    while not condition():
        assert time.monotonic() < end_s
        time.sleep(0.01)


def alive(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def test_leaving_ends_everything_also_on_an_error(tmp_path: Path) -> None:
    pids: list[int] = []
    with pytest.raises(ZeroDivisionError), Processes(tmp_path) as processes:
        pids += [processes.start(name, SLEEPER) for name in ("one", "two")]
        assert all(alive(pid) for pid in pids)
        raise ZeroDivisionError
    assert not any(alive(pid) for pid in pids)


def test_a_process_that_ignores_sigterm_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("isocost.demo.processes._TERM_GRACE_S", 0.1)
    with Processes(tmp_path) as processes:
        pid = processes.start("stubborn", STUBBORN)
        wait_for(lambda: "up" in processes.log("stubborn").read_text())
    assert not alive(pid)


def test_children_of_a_process_end_with_it(tmp_path: Path) -> None:
    child_file = tmp_path / "child"
    script = f"sleep 1000 & echo $! > {child_file}.part; mv {child_file}.part {child_file}; wait"
    with Processes(tmp_path) as processes:
        processes.start("parent", ["sh", "-c", script])
        wait_for(child_file.exists)
        child = int(child_file.read_text())
        assert alive(child)
    wait_for(lambda: not alive(child))


def test_a_process_that_ends_is_reported_with_its_last_lines(tmp_path: Path) -> None:
    script = "import sys; [print(n) for n in range(50)]; sys.exit('out of luck')"
    with Processes(tmp_path) as processes:
        processes.start("sleeper", SLEEPER)
        processes.check()
        pid = processes.start("quitter", [sys.executable, "-c", script])
        wait_for(lambda: not alive(pid))
        with pytest.raises(StartError) as caught:
            processes.check()
    message = str(caught.value)
    assert message.startswith("quitter ended with status 1")
    assert "out of luck" in message
    assert "  49\n" in message and "  10\n" not in message


def test_a_process_that_was_killed_names_the_signal(tmp_path: Path) -> None:
    with Processes(tmp_path) as processes:
        pid = processes.start("victim", SLEEPER)
        os.kill(pid, signal.SIGKILL)
        wait_for(lambda: not alive(pid))
        with pytest.raises(StartError, match="victim ended by signal 9"):
            processes.check()


def test_a_command_that_does_not_exist_is_a_start_error(tmp_path: Path) -> None:
    with Processes(tmp_path) as processes, pytest.raises(StartError, match="ghost cannot be"):
        processes.start("ghost", [str(tmp_path / "no-such-program")])


def test_a_process_gets_a_group_its_priority_and_its_own_output_file(tmp_path: Path) -> None:
    script = "import os, sys; print(os.nice(0), os.getpgid(0)); print('oops', file=sys.stderr)"
    output = tmp_path / "output"
    with Processes(tmp_path) as processes:
        pid = processes.start("polite", [sys.executable, "-c", script], nice=5, output=output)
        wait_for(lambda: not alive(pid))
    assert output.read_text() == f"{os.nice(0) + 5} {pid}\n"
    assert processes.log("polite").read_text() == "oops\n"


def test_children_end_when_the_demo_is_killed(tmp_path: Path) -> None:
    script = (
        "import pathlib, signal, sys\n"
        "from isocost.demo.processes import Processes\n"
        "with Processes(pathlib.Path(sys.argv[1])) as processes:\n"
        "    print(processes.start('child', ['sleep', '1000']), flush=True)\n"
        "    signal.pause()\n"
    )
    with Processes(tmp_path) as processes:
        demo = processes.start("demo", [sys.executable, "-c", script, str(tmp_path)])
        wait_for(lambda: processes.log("demo").read_text().endswith("\n"))
        child = int(processes.log("demo").read_text())
        assert alive(child)
        os.kill(demo, signal.SIGKILL)
        wait_for(lambda: not alive(child))
