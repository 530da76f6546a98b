"""Reading Envoy's JSON access log."""

import json
from pathlib import Path

from isocost.bench.access_log import AccessLog, LoggedRequest, parse_line

LINE = {
    "time": "2026-01-01T00:00:00.000Z",
    "request_id": "b7f0",
    "status": 200,
    "node": "h100-1",
    "rack": "rack-a",
    "attempts": 2,
    "decision": "policy=weighted_random reason=picked table=1790000000123 age_ms=83",
}


def test_a_picked_request_gives_node_attempts_and_table_age() -> None:
    assert parse_line(json.dumps(LINE)) == LoggedRequest(
        request_id="b7f0",
        status=200,
        node="h100-1",
        rack="rack-a",
        attempts=2,
        reason="picked",
        table_age_ms=83.0,
    )


def test_what_the_log_does_not_say_is_unknown() -> None:
    line = {"request_id": None, "status": 503, "node": "-", "attempts": None, "decision": None}
    assert parse_line(json.dumps(line)) == LoggedRequest(None, 503, None, None, None, None, None)
    fallback = {"decision": "policy=weighted_random reason=no_table table=0 age_ms=-"}
    entry = parse_line(json.dumps(fallback))
    assert entry is not None
    assert (entry.reason, entry.table_age_ms) == ("no_table", None)


def test_other_lines_are_passed_over() -> None:
    for line in ("[2026-01-01][info] starting", "", "{", "[1]", '{"level":"warn"}'):
        assert parse_line(line) is None


def test_a_file_that_was_emptied_is_read_from_its_start(tmp_path: Path) -> None:
    path = tmp_path / "access.log"
    line = json.dumps(LINE) + "\n"
    path.write_text(line * 3)
    log = AccessLog(path)
    assert len(log.read_new()) == 3
    path.write_text(line)
    assert len(log.read_new()) == 1
    assert log.read_new() == []


def test_a_growing_file_is_read_once_and_a_cut_line_waits(tmp_path: Path) -> None:
    path = tmp_path / "access.log"
    log = AccessLog(path)
    assert log.read_new() == []
    line = json.dumps(LINE)
    path.write_text(f"{line}\nnoise\n{line[:20]}")
    assert [entry.node for entry in log.read_new()] == ["h100-1"]
    assert log.read_new() == []
    with path.open("a") as file:
        file.write(f"{line[20:]}\n")
    assert [entry.node for entry in log.read_new()] == ["h100-1"]
