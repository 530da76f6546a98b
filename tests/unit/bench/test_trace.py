"""Loading a trace: names, files, formats, rates and durations."""

import gzip
import os
from pathlib import Path

import pytest

from isocost.bench import load as loading
from isocost.bench.load import Wanted, load, load_run
from isocost.bench.trace import TraceRequest
from isocost.errors import StartError

AZURE = """TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:15:00.0,7,9
2023-11-16 18:15:10.0,8,10
2023-11-16 18:15:30.0,9,11
"""
MOONCAKE = """{"timestamp": 5000, "input_length": 600, "output_length": 2, "hash_ids": [0, 1]}
{"timestamp": 5000, "input_length": 500, "output_length": 3, "hash_ids": [2]}
"""
BURSTGPT = """Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type
5,ChatGPT,472,18,490,Conversation log
45,GPT-4,1087,0,1087,API log
50,ChatGPT,30,2,32,API log
"""
AIBRIX = "timestamp_ms,prompt_tokens,output_tokens\n21,909,22\n26,547,29\n"
SERVEGEN = (
    "client,mean_rate_per_s,rate_weighted_iat_cv,usual_arrival_model,"
    "input_mean,input_p50,input_p99,output_mean,output_p50,output_p99\n"
    "7,2,1,Gamma,100,90,300,50,40,200\n"
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "trace"


def test_the_bundled_conversations_are_ten_minutes_of_the_azure_trace() -> None:
    requests = load("azure-conv")
    assert len(requests) == 3118
    assert requests[0].arrival_s == 0.0
    assert requests[-1].arrival_s == pytest.approx(599.551155)
    assert sum(request.input_tokens for request in requests) == 3595428
    assert sum(request.output_tokens for request in requests) == 766129
    assert max(request.input_tokens for request in requests) == 14050


def test_the_bundled_mooncake_slice_is_fifteen_minutes_with_the_blocks_of_every_prompt() -> None:
    requests = load("mooncake")
    assert len(requests) == 2728
    assert sum(request.input_tokens for request in requests) == 36783744
    assert all(
        len(request.blocks) == -(-request.input_tokens // request.block_tokens)
        for request in requests
    )
    assert all(request.blocks[0] == 0 for request in requests)


@pytest.mark.parametrize("name", loading.NAMES)
def test_every_name_gives_the_same_requests_in_order_of_arrival_each_time(name: str) -> None:
    requests = load(name, seed=3, duration_s=20)
    arrivals = [request.arrival_s for request in requests]
    assert arrivals == sorted(arrivals)
    assert arrivals[0] >= 0
    assert arrivals[-1] < 20
    assert requests == load(name, seed=3, duration_s=20)


@pytest.mark.parametrize("name", ["servegen", *loading.GENERATED])
def test_generated_requests_follow_the_seed(name: str) -> None:
    assert load(name, seed=3, duration_s=20) != load(name, seed=4, duration_s=20)


def test_mooncakes_batches_are_spread_unless_the_bursts_are_wanted(file: Path) -> None:
    file.write_text(MOONCAKE)
    assert [request.arrival_s for request in load(str(file))] == [0.0, 1.5]
    assert [request.arrival_s for request in load(str(file), "mooncake-bursts")] == [0.0, 0.0]


@pytest.mark.parametrize(
    ("text", "first"),
    [
        (AZURE, TraceRequest(0.0, 7, 9)),
        (MOONCAKE, TraceRequest(0.0, 600, 2, (0, 1))),
        (BURSTGPT, TraceRequest(0.0, 472, 18, kind="Conversation")),
        (AIBRIX, TraceRequest(0.0, 909, 22)),
    ],
)
def test_the_format_is_guessed_from_the_first_line_also_if_packed(
    file: Path, text: str, first: TraceRequest
) -> None:
    file.write_text(text)
    assert load(str(file))[0] == first
    file.write_bytes(gzip.compress(text.encode()))
    assert load(str(file))[0] == first


def test_a_file_of_clients_is_guessed_and_generates(file: Path) -> None:
    file.write_text(SERVEGEN)
    assert {request.user for request in load(str(file))} == {"7"}


def test_a_format_that_cannot_be_guessed_is_refused(file: Path) -> None:
    file.write_text("a,b,c\n1,2,3\n")
    with pytest.raises(StartError, match="shows none of the formats; give --format"):
        load(str(file))


@pytest.mark.parametrize(
    ("source", "format_name", "message"),
    [
        ("nowhere", None, "no such file, and no trace of this name: azure-conv, mooncake,"),
        ("azure-conv", "pcap", "format: 'pcap' is not allowed; azure, mooncake,"),
        ("azure-conv", "abc", "abc is generated and reads no file"),
        ("abc", "azure", "abc is generated: it is no azure file"),
        ("abc:x", None, "abc:x is not allowed"),
        ("burstgpt:cv=0", None, "burstgpt:cv=0 is not allowed; burstgpt:cv=X with X from 0.01"),
        ("burstgpt:cv=x", None, "burstgpt:cv=x is not allowed"),
        ("burstgpt:4", None, "burstgpt:4 is not allowed"),
    ],
)
def test_a_source_that_cannot_be_had_is_refused(
    source: str, format_name: str | None, message: str
) -> None:
    with pytest.raises(StartError, match=message):
        load(source, format_name)


@pytest.mark.parametrize("name", ["duration_s", "rate", "time_scale", "rate_scale"])
@pytest.mark.parametrize("value", [0.0, -1.0, float("inf"), float("nan")])
def test_numbers_must_be_above_zero(name: str, value: float) -> None:
    with pytest.raises(StartError, match=f"{name}: .* is not allowed; a number above 0"):
        load("abc", **{name: value})


def test_a_rate_and_a_time_scale_exclude_each_other() -> None:
    with pytest.raises(StartError, match="rate and time_scale exclude each other"):
        load("azure-conv", rate=3, time_scale=2)


@pytest.mark.parametrize("source", ["azure-conv", "abc", "servegen"])
def test_a_load_that_cannot_be_held_is_refused_before_it_is_made(source: str) -> None:
    with pytest.raises(StartError, match="at most 10,000,000 are allowed"):
        load(source, rate=1e6, duration_s=1e6)


@pytest.mark.parametrize("source", ["azure-conv", "mooncake", "mooncake-bursts"])
def test_the_wanted_rate_is_the_mean_of_what_is_sent(source: str) -> None:
    requests = load(source, rate=12, duration_s=30)
    assert len(requests) == pytest.approx(360, abs=1)
    assert requests[-1].arrival_s == pytest.approx(30, rel=0.01)


def test_the_wanted_rate_counts_what_the_rate_scale_adds() -> None:
    requests = load("azure-conv", rate=12, duration_s=30, rate_scale=3)
    assert len(requests) == pytest.approx(360, abs=3)


def test_the_duration_is_the_runs_own_whatever_the_time_scale(file: Path) -> None:
    file.write_text(AZURE)
    assert load(str(file), duration_s=10) == (TraceRequest(0.0, 7, 9),)
    assert load(str(file), duration_s=10, time_scale=2) == (
        TraceRequest(0.0, 7, 9),
        TraceRequest(5.0, 8, 10),
    )


@pytest.mark.parametrize("source", ["abc", "servegen", "burstgpt"])
def test_generated_loads_keep_their_duration_and_gain_rate_under_a_time_scale(source: str) -> None:
    base, fast = load(source, duration_s=50), load(source, duration_s=50, time_scale=4)
    assert fast[-1].arrival_s == pytest.approx(50, rel=0.05)
    assert len(fast) == pytest.approx(4 * len(base), rel=0.25)


def test_reading_stops_where_the_duration_or_the_count_is_reached(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loading, "_DISORDER", 0)
    file.write_text(AZURE + "nonsense,1,1\n")
    assert len(load(str(file), duration_s=30)) == 2
    assert len(load(str(file), duration_s=2, rate=1)) == 2
    with pytest.raises(StartError, match="line 5: TIMESTAMP"):
        load(str(file))


def test_rows_out_of_order_are_sorted_and_arrivals_start_at_zero(file: Path) -> None:
    file.write_text("timestamp_ms,prompt_tokens,output_tokens\n500,2,2\n100,1,1\n900,3,3\n")
    assert load(str(file)) == (
        TraceRequest(0.0, 1, 1),
        TraceRequest(pytest.approx(0.4), 2, 2),
        TraceRequest(pytest.approx(0.8), 3, 3),
    )


def test_failed_requests_are_left_out_counted_and_noted(file: Path) -> None:
    file.write_text(BURSTGPT)
    notes: list[str] = []
    assert len(load(str(file), note=notes.append)) == 2
    assert notes == [f"{file}: requests left out, because they have no prompt or no answer: 1"]


def test_a_trace_that_ends_early_is_noted() -> None:
    notes: list[str] = []
    load("azure-conv", duration_s=3600, note=notes.append)
    assert notes == ["azure-conv: the last request comes after 600 s"]


@pytest.mark.parametrize(
    ("wanted", "lasts_s"),
    [
        # The file has 30 s.
        (Wanted(), 30),
        (Wanted(duration_s=25), 25),
        (Wanted(duration_s=31), 30),
        (Wanted(duration_s=3600), 30),
        (Wanted(duration_s=3600, time_scale=2), 15),
        (Wanted(duration_s=14, time_scale=2), 14),
        (Wanted(duration_s=3600, rate=1), 2),
        (Wanted(duration_s=2, rate=1), 2),
    ],
)
def test_a_load_lasts_as_long_as_is_wanted_or_as_its_file(
    file: Path, wanted: Wanted, lasts_s: float
) -> None:
    file.write_text(AZURE)
    loaded = load_run(str(file), None, wanted, lambda _: None)
    assert loaded.duration_s == pytest.approx(lasts_s)


def test_a_row_that_stands_behind_later_ones_is_not_lost(file: Path) -> None:
    """Recorders that write a request down when it ends leave such files."""
    head, *rows = AZURE.splitlines()
    file.write_text("\n".join([head, rows[0], rows[2], rows[1]]))
    for chosen in ({"duration_s": 20}, {"duration_s": 20, "rate": 0.1}):
        assert [request.input_tokens for request in load(str(file), **chosen)] == [7, 8]  # type: ignore[arg-type]


@pytest.mark.parametrize("format_name", [None, "azure", "mooncake"])
def test_an_empty_file_is_called_so(file: Path, format_name: str | None) -> None:
    file.write_text("")
    with pytest.raises(StartError, match=f"{file} is empty"):
        load(str(file), format_name)


def test_a_generated_load_lasts_as_long_as_is_wanted(file: Path) -> None:
    file.write_text(SERVEGEN)
    for source in ("abc", str(file)):
        loaded = load_run(source, None, Wanted(duration_s=20, rate=1), lambda _: None)
        assert loaded.requests[-1].arrival_s < loaded.duration_s == 20


def test_a_trace_without_requests_is_refused(file: Path) -> None:
    file.write_text(AZURE.splitlines()[0] + "\n2023-11-16 18:15:00.0,7,0\n")
    with pytest.raises(StartError, match="no requests with a prompt and an answer"):
        load(str(file))


def test_what_is_no_regular_file_is_named_for_what_it_is(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for source, what in ((pipe, "a pipe"), (tmp_path, "a directory"), ("/dev/null", "a device")):
        with pytest.raises(StartError, match=f"{source} is {what}.*must be a regular file"):
            load(str(source))
    with pytest.raises(StartError, match="File name too long"):
        load("x" * 300)
