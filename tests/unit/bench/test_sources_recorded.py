"""The readers of recorded traces: exact values, and errors that say where."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from isocost.bench.sources import aibrix, azure, burstgpt, mooncake
from isocost.bench.sources.rows import opened
from isocost.bench.sources.spread import spread
from isocost.bench.trace import TraceRequest
from isocost.errors import StartError

Reader = Callable[[Iterable[str], str], Iterator[TraceRequest]]

AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens"
BURSTGPT = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type"
BURSTGPT_2 = (
    "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type"
)


def azure_rows(*rows: str) -> list[TraceRequest]:
    return list(azure.read([AZURE, *rows], "test.csv"))


def test_azure_fractions_of_seven_digits_are_read_to_100_ns() -> None:
    assert azure_rows(
        "2023-11-16 23:59:59.9999999,374,44", "2023-11-17 00:00:00.0000001,396,109"
    ) == [TraceRequest(0.0, 374, 44), TraceRequest(2e-7, 396, 109)]


def test_azure_times_with_an_offset_and_with_a_short_or_no_fraction_are_read() -> None:
    requests = azure_rows(
        "2024-05-10 00:00:00.009930+00:00,1,1",
        "2024-05-10 00:00:01,1,1",
        "2024-05-10 02:00:02.5+02:00,1,1",
    )
    assert [request.arrival_s for request in requests] == [0.0, 0.99007, 2.49007]


def test_mooncake_rows_keep_lengths_and_blocks() -> None:
    lines = [
        '{"timestamp": 27000, "input_length": 1025, "output_length": 52, "hash_ids": [46, 47, 9]}',
        "",
        '{"output_length": 1, "input_length": 3, "timestamp": 27500.5}',
    ]
    assert list(mooncake.read([line + "\n" for line in lines], "t")) == [
        TraceRequest(0.0, 1025, 52, (46, 47, 9), 512),
        TraceRequest(0.5005, 3, 1),
    ]


def test_burstgpt_rows_of_both_releases_are_read() -> None:
    first = ["5,ChatGPT,472,18,490,Conversation log", "45,GPT-4,1087,0,1087,API log"]
    assert list(burstgpt.read([BURSTGPT, *first], "t")) == [
        TraceRequest(0.0, 472, 18, kind="Conversation"),
        TraceRequest(40.0, 1087, 0, kind="API"),
    ]
    second = [
        "19440110.0,1722ac82,43,GPT-4,906,446,1352,Conversation log",
        "19440161.0,,2,ChatGPT,36,29,65,API log",
    ]
    assert list(burstgpt.read([BURSTGPT_2, *second], "t")) == [
        TraceRequest(0.0, 906, 446, user="1722ac82", kind="Conversation"),
        TraceRequest(51.0, 36, 29, kind="API"),
    ]


def test_aibrix_rows_are_read() -> None:
    lines = ["timestamp_ms,prompt_tokens,output_tokens", "21,909,22", "26,547,29"]
    assert list(aibrix.read(lines, "t")) == [
        TraceRequest(0.0, 909, 22),
        TraceRequest(0.005, 547, 29),
    ]


def test_columns_may_be_in_another_order_and_more() -> None:
    lines = ["extra,GeneratedTokens,TIMESTAMP,ContextTokens", "x,3,2023-11-16 18:15:46,2"]
    assert list(azure.read(lines, "t")) == [TraceRequest(0.0, 2, 3)]


@pytest.mark.parametrize(
    ("read", "lines", "message"),
    [
        (azure.read, ["time,in"], r"t: line 1: no column TIMESTAMP, ContextTokens, Gen.*; needed"),
        (azure.read, [AZURE, "2023-11-16 18:15:46,1"], "t: line 2: 2 fields; the header has 3"),
        (azure.read, [AZURE, "", "yesterday,1,1"], "t: line 3: TIMESTAMP: 'yesterday' is not al"),
        (azure.read, [AZURE, "2023-13-16 18:15:46,1,1"], "t: line 2: TIMESTAMP: .*; a time like"),
        (azure.read, [AZURE, "2023-11-16 18:15:46.12345678,1,1"], "t: line 2: TIMESTAMP"),
        (azure.read, [AZURE, "2023-11-16 18:15:46,-1,1"], "ContextTokens: '-1' .*from 0 to 10,000"),
        (azure.read, [AZURE, "2023-11-16 18:15:46,1,1_0"], "t: line 2: GeneratedTokens: '1_0'"),
        (azure.read, [AZURE, "2023-11-16 18:15:46,1,10000001"], "GeneratedTokens: '10000001'"),
        (burstgpt.read, [BURSTGPT, "nan,m,1,1,2,API log"], "t: line 2: Timestamp: 'nan' is not"),
        (burstgpt.read, [BURSTGPT, "1,m,1.5,1,2,API log"], "t: line 2: Request tokens: '1.5'"),
        (aibrix.read, ["timestamp_ms,prompt_tokens,output_tokens", "x,1,1"], "timestamp_ms: 'x'"),
        (mooncake.read, ["{"], "t: line 1: no JSON"),
        (mooncake.read, ["[" * 100_000], "t: line 1: no JSON"),
        (mooncake.read, ["[1]"], "t: line 1: the line: .* an object with timestamp, input_length"),
        (mooncake.read, ["{}"], "t: line 1: timestamp: None is not allowed; a number"),
        (mooncake.read, ['{"timestamp": NaN}'], "t: line 1: timestamp: nan is not allowed"),
        (mooncake.read, ['{"timestamp": true}'], "t: line 1: timestamp: True is not allowed"),
        (mooncake.read, [f'{{"timestamp": 1{"0" * 400}}}'], "t: line 1: timestamp: 1000.*000 is"),
        (
            mooncake.read,
            ['{"timestamp": 0, "input_length": 1, "output_length": 1, "hash_ids": ["a"]}'],
            "t: line 1: hash_ids: .'a'. is not allowed; a list of whole numbers",
        ),
        (
            mooncake.read,
            ['{"timestamp": 0, "input_length": 1.0, "output_length": 1, "hash_ids": []}'],
            "t: line 1: input_length: 1.0 is not allowed; a whole number",
        ),
    ],
)
def test_a_bad_row_is_refused_with_its_line_field_and_value(
    read: Reader, lines: list[str], message: str
) -> None:
    with pytest.raises(StartError, match=message):
        list(read([line + "\n" for line in lines], "t"))


@pytest.mark.parametrize("data", [b"\x1f\x8bno gzip", b"\xff\xfe\xff", b'a\n"' + b"x" * 200_000])
def test_a_file_that_is_no_text_is_refused_by_name(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "trace.csv"
    path.write_bytes(data)
    with pytest.raises(StartError, match=r"trace\.csv: "), opened(path) as lines:
        list(burstgpt.read(lines, str(path)))


def test_a_batch_is_spread_evenly_over_the_step_but_not_past_the_next_time() -> None:
    requests = [TraceRequest(at_s, 1, 1) for at_s in (0.0, 0.0, 0.0, 2.0, 2.0, 10.0, 10.0)]
    assert [request.arrival_s for request in spread(requests, 3.0)] == pytest.approx(
        [0.0, 2 / 3, 4 / 3, 2.0, 3.5, 10.0, 11.5]
    )
