"""`isocost bench`: what its flags mean, and what is refused as wrong usage."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.console import Console

from isocost.bench.load import FORMATS, NAMES
from isocost.bench.options import BenchOptions
from isocost.bench.target import Target
from isocost.cli import bench
from isocost.cli.main import EXIT_FAILED, EXIT_USAGE, main

URL = ("--url", "http://127.0.0.1:9", "--model", "m")


@pytest.fixture
def chosen(monkeypatch: pytest.MonkeyPatch) -> list[tuple[BenchOptions, Console]]:
    """The options of the runs that the command would start."""
    runs: list[tuple[BenchOptions, Console]] = []

    async def run_bench(options: BenchOptions, console: Console) -> int:
        runs.append((options, console))
        return 0

    monkeypatch.setattr("isocost.bench.run.run_bench", run_bench)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    return runs


Chosen = list[tuple[BenchOptions, Console]]


def test_one_url_is_one_target_in_one_round(chosen: Chosen) -> None:
    assert main(["bench", *URL]) == 0
    options, console = chosen[0]
    assert options.targets == (Target("http://127.0.0.1:9", "http://127.0.0.1:9"),)
    assert (options.rounds, options.trace, options.headers) == (1, "azure-conv", {})
    assert not console.stderr
    # Without a terminal nothing has to fit one.
    assert console.width >= 200


def test_several_targets_keep_their_order_and_get_several_rounds(chosen: Chosen) -> None:
    targets = ["--target", "b=http://h:1", "--target", "a=https://h:2/v1"]
    assert main(["bench", *targets, "--model", "m"]) == 0
    assert main(["bench", *targets, "--model", "m", "--rounds", "9"]) == 0
    assert [target.name for target in chosen[0][0].targets] == ["b", "a"]
    assert [options.rounds for options, _ in chosen] == [5, 9]


def test_the_api_key_is_a_bearer_token_and_a_header_goes_before_it(
    chosen: Chosen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    main(["bench", *URL, "--header", "X-Team: a: b"])
    main(["bench", *URL, "--header", "Authorization: Basic x"])
    assert chosen[0][0].headers == {"authorization": "Bearer k", "x-team": "a: b"}
    assert chosen[1][0].headers == {"authorization": "Basic x"}


def test_a_key_of_two_lines_is_refused_and_not_repeated(
    chosen: Chosen, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret\nx: y")
    assert main(["bench", *URL]) == EXIT_USAGE
    assert not chosen
    told = capsys.readouterr().err
    assert "OPENAI_API_KEY" in told and "secret" not in told


def test_with_json_all_else_goes_to_standard_error(chosen: Chosen) -> None:
    main(["bench", *URL, "--json"])
    assert chosen[0][1].stderr


@pytest.mark.parametrize("address", ["127.0.0.1:18080", "http://127.0.0.1:18080"])
def test_the_control_planes_address_may_lack_its_scheme(chosen: Chosen, address: str) -> None:
    main(["bench", *URL, "--control-plane", address])
    assert chosen[0][0].control_plane == "http://127.0.0.1:18080"


def test_every_flag_of_the_load_arrives(chosen: Chosen) -> None:
    main([
        *("bench", *URL, "--trace", "t.csv", "--format", "azure", "--duration", "5"),
        *("--rate", "2.5", "--time-scale", "3", "--rate-scale", "0.5", "--seed", "0"),
        *("--slo", "ttft_ms=850", "--fail-if", "ttft_ms.p99>1", "--body", '{"ignore_eos": true}'),
        *("--max-connections", "7", "--request-timeout", "9", "--connect-timeout", "8"),
        *("--access-log", "a", "--scenario", "s", "--report", "r", "--html", "h"),
    ])  # fmt: skip
    options = chosen[0][0]
    assert (options.trace, options.format, options.duration_s) == ("t.csv", "azure", 5.0)
    assert (options.rate, options.time_scale, options.rate_scale) == (2.5, 3.0, 0.5)
    assert (options.seed, options.slo.ttft_ms, options.body) == (0, 850.0, {"ignore_eos": True})
    assert [condition.text for condition in options.conditions] == ["ttft_ms.p99>1"]
    assert (options.max_connections, options.request_timeout_s) == (7, 9.0)
    assert options.connect_timeout_s == 8.0
    files = (options.access_log, options.scenario, options.report, options.html)
    assert files == tuple(map(Path, "asrh"))


@pytest.mark.parametrize("stream", [True, False])
def test_answers_may_be_streamed_or_not(chosen: Chosen, stream: bool) -> None:
    assert main(["bench", *URL, "--body", f'{{"stream": {str(stream).lower()}}}']) == 0
    assert chosen[0][0].body == {"stream": stream}


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("--url", "127.0.0.1:1", "--model", "m"), "--url '127.0.0.1:1' is not allowed"),
        (("--url", "http://u:p@h", "--model", "m"), "--header"),
        ((*URL, "--url", "http://h"), "--url is not allowed twice"),
        ((*URL, "--header", "Content-Length: 5"), "--header: Content-Length"),
        ((*URL, "--header", "transfer-encoding: chunked"), "--header: transfer-encoding"),
        (("--target", "a", "--model", "m"), "NAME=URL"),
        (("--target", "=http://h", "--model", "m"), "NAME=URL"),
        (("--target", "a=http://h", "--target", "a=http://g", "--model", "m"), "another target"),
        ((*URL, "--fail-if", "ttft_ms.p99"), "is not a condition"),
        ((*URL, "--fail-if", "ttft_ms.p99=>1"), "is not a condition"),
        ((*URL, "--slo", "ttft=1"), "slo"),
        ((*URL, "--header", "no colon"), "--header"),
        ((*URL, "--header", "a: b\r\nc: d"), "--header"),
        ((*URL, "--body", "[1]"), "--body"),
        ((*URL, "--body", "{"), "--body"),
        ((*URL, "--body", '{"model": "n"}'), "--body: 'model' is not allowed"),
        ((*URL, "--body", '{"stream": 0}'), "--body: 'stream' must be true or false"),
        ((*URL, "--body", '{"stream": null}'), "--body: 'stream' must be true or false"),
        (
            (*URL, "--body", '{"stream": false}', "--slo", "ttft_ms=850"),
            "--slo ttft_ms: answers that are not streamed have no first token",
        ),
        *(
            ((*URL, "--body", f'{{"a": [{number}]}}'), "which has no NaN and no infinite numbers")
            for number in ("NaN", "-Infinity", "1e999")
        ),
        ((*URL, "--body", "[" * 100_000), "is not JSON"),
        *(
            ((*URL, "--control-plane", address), f"--control-plane {address!r} is not allowed")
            for address in ("http://", "host:port", "ftp://h:1", "")
        ),
        (("--target", "a=h:1", "--model", "m"), "--target a: 'h:1' is not allowed; it must be a"),
        ((*URL, "--scenario", "/absent.yaml"), "absent.yaml"),
        ((*URL, "--fail-if", "ttft_ms.p98>1"), "p98"),
    ],
)
def test_wrong_usage_is_named_and_exits_with_2(
    arguments: tuple[str, ...], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", *arguments]) == EXIT_USAGE
    assert named in capsys.readouterr().err


def test_a_password_in_the_control_planes_url_is_not_repeated(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["bench", *URL, "--control-plane", "http://u:secret@h:1"]) == EXIT_USAGE
    assert "secret" not in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ("--model", "m"),
        ("--url", "http://h"),
        ("--url", "http://h", "--target", "a=http://h", "--model", "m"),
        (*URL, "--duration", "0"),
        (*URL, "--rate", "nan"),
        (*URL, "--rounds", "0"),
        (*URL, "--seed", "-1"),
        (*URL, "--max-connections", "many"),
    ],
)
def test_flags_that_are_missing_or_out_of_range_exit_with_2(arguments: tuple[str, ...]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["bench", *arguments])
    assert caught.value.code == 2


def test_a_target_that_accepts_no_connection_could_not_be_run(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["bench", *URL, "--duration", "1"]) == EXIT_FAILED
    assert "http://127.0.0.1:9 accepts no connection" in capsys.readouterr().err


def test_the_help_names_every_trace_and_format() -> None:
    assert ", ".join(NAMES) == bench._TRACES
    assert ", ".join(FORMATS) == bench._FORMATS


def test_the_help_shows_examples(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["bench", "--help"])
    shown = capsys.readouterr().out
    assert "--fail-if 'ttft_ms.p99>850'" in shown and "exit codes" in shown
