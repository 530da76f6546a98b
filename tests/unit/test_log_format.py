"""A record is one line for a machine, and no text from outside looks like another record."""

from __future__ import annotations

import json
import logging
import re
import subprocess
import sys
from pathlib import Path

import pytest

from isocost.log_format import JsonFormatter, TextFormatter
from tests.integration.harness.ports import free_port

FORGED = "x\n2026-01-01 00:00:00,000 INFO isocost.daemon: all is well\r\x1b[2J\u2028\u202e end"
#: As the text format begins a record.
BEGINS = re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} [A-Z]+ \S+: ", re.MULTILINE)


def record(message: str, *args: object, **fields: object) -> logging.LogRecord:
    logger = logging.getLogger("isocost.test")
    return logger.makeRecord(
        logger.name, 30, __file__, 1, message, args, None, extra=fields or None
    )


def failed(text: str) -> logging.LogRecord:
    made = record("a tick failed")
    try:
        raise ValueError(text)
    except ValueError:
        made.exc_info = sys.exc_info()
    return made


@pytest.mark.parametrize("made", [record("client %s left", FORGED), failed(FORGED)])
def test_foreign_text_forges_no_line(made: logging.LogRecord) -> None:
    text = TextFormatter().format(made)
    assert len(BEGINS.findall(text)) == 1
    assert all(line.startswith("  | ") for line in text.splitlines()[1:])
    assert text.replace("\n", "").isprintable()
    assert len(JsonFormatter().format(made).splitlines()) == 1


def test_a_line_of_json_has_all_of_the_record() -> None:
    made = record("node %s: %s", "a", FORGED, node="a", reason="jitter", where=Path("/x"))
    made.created = 1_790_000_000.1239
    assert json.loads(JsonFormatter().format(made)) == {
        "time": "2026-09-21T14:13:20.123Z",
        "level": "warning",
        "logger": "isocost.test",
        "message": f"node a: {FORGED}",
        "fields": {"node": "a", "reason": "jitter", "where": "/x"},
    }


def test_an_error_is_in_one_field_of_its_line() -> None:
    line = json.loads(JsonFormatter().format(failed("lost")))
    assert line["exception"].startswith("Traceback")
    assert line["exception"].endswith("ValueError: lost")
    assert line["fields"] == {}


@pytest.mark.parametrize("command", ["control-plane", "agent", "fake-node"])
def test_a_daemon_that_cannot_start_says_so_in_json(command: str, tmp_path: Path) -> None:
    flags = {
        "control-plane": ("--listen", "nowhere"),
        "agent": ("--config", str(tmp_path / "none.yaml")),
        "fake-node": ("--listen", "192.0.2.1:9"),
    }[command]
    end = subprocess.run(
        [sys.executable, "-m", "isocost.cli.main", command, *flags, "--log-format", "json"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert end.returncode in (2, 3)
    lines = [json.loads(line) for line in end.stderr.splitlines()]
    assert lines[-1]["level"] == "error"


def test_every_line_of_a_running_daemon_is_an_object(tmp_path: Path) -> None:
    path = tmp_path / "control-plane.yaml"
    path.write_text(f"listen: 127.0.0.1:{free_port()}\nhttp: 127.0.0.1:{free_port()}\n")
    command = (sys.executable, "-m", "isocost.cli.main", "control-plane", "--config", str(path))
    lines = []
    with subprocess.Popen(
        (*command, "--log-format", "json"), stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            for line in process.stderr or ():
                lines.append(json.loads(line))
                if "serving gRPC" in line:
                    process.terminate()
        finally:
            process.kill()
    assert {line["logger"] for line in lines} == {"isocost.daemon"}
    assert all(line["level"] == "info" for line in lines)
