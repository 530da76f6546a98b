"""A whole run against servers of the test: its checks, its outputs and its exit code."""

import asyncio
import io
import json
import os
import signal
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from rich.console import Console

from isocost.bench import run as bench_run
from isocost.bench.condition import Condition
from isocost.bench.goodput import Slo
from isocost.bench.machine import CpuTimes
from isocost.bench.options import BenchOptions
from isocost.bench.run import require_sockets, run_bench
from isocost.bench.target import Target, parse_target
from isocost.errors import ConfigError, RejectedError, StartError
from tests.unit.bench.chat_server import DONE, PATH, TEXT, USAGE, server, streaming
from tests.unit.bench.fake_control_plane import fake_control_plane, row
from tests.unit.bench.fault_node import fault_node

#: 20 requests in under half a second.
REQUESTS = 20
NAMED = TEXT.replace(b'{"choices"', b'{"system_fingerprint":"n1","choices"')


class Chat:
    """Answers every request, and keeps what it was asked."""

    def __init__(
        self, answer: Callable[[web.Request], Awaitable[web.StreamResponse]] | None = None
    ) -> None:
        self._answer = answer or streaming(NAMED, USAGE, DONE)
        self.prompts: list[str] = []

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.prompts.append(json.loads(await request.read())["messages"][0]["content"])
        return await self._answer(request)


def options(tmp_path: Path, *urls: str, **changes: Any) -> BenchOptions:
    """A short run against chat URLs; the report goes to report.json."""
    targets = tuple(
        Target(name, url.removesuffix(PATH)) for name, url in zip("abc", urls, strict=False)
    )
    short = BenchOptions(
        targets=targets,
        model="m",
        trace="azure-conv",
        format=None,
        duration_s=0.4,
        rate=REQUESTS / 0.4,
        time_scale=1.0,
        rate_scale=1.0,
        rounds=1,
        slo=Slo(),
        conditions=(),
        seed=1,
        max_connections=64,
        request_timeout_s=20.0,
        connect_timeout_s=5.0,
        headers={},
        body={},
        control_plane=None,
        access_log=None,
        scenario=None,
        report=tmp_path / "report.json",
        html=None,
        json=False,
    )
    return replace(short, **changes)


def conditions(*texts: str) -> tuple[Condition, ...]:
    return tuple(map(Condition.parse, texts))


async def run(chosen: BenchOptions) -> tuple[int, str]:
    """The exit code and what was shown."""
    shown = io.StringIO()
    async with asyncio.timeout(60):
        code = await run_bench(chosen, Console(file=shown, width=200, color_system=None))
    return code, shown.getvalue()


def report(tmp_path: Path) -> dict[str, Any]:
    data: dict[str, Any] = json.loads((tmp_path / "report.json").read_text())
    return data


async def test_a_run_sends_the_trace_and_writes_its_report(tmp_path: Path) -> None:
    chat = Chat()
    async with server(chat.handle) as url:
        code, shown = await run(options(tmp_path, url))
    data = report(tmp_path)
    assert code == 0
    assert data["schema"] == "isocost.report/1"
    assert data["requests"]["sent"] == data["requests"]["ok"] == len(chat.prompts) == REQUESTS
    assert data["nodes"][0]["name"] == "n1" and data["nodes"][0]["requests"] == REQUESTS
    assert data["trace"]["duration_s"] == 0.4 and data["interrupted"] is False
    assert 0 <= data["machine_busy"] <= 1
    assert any(process["pid"] == os.getpid() for process in data["processes"])
    assert f"sent {REQUESTS}, ok {REQUESTS}, failed 0" in shown
    assert "first token" in shown and "machine" in shown


async def test_what_will_be_sent_is_said_before(tmp_path: Path) -> None:
    async with server(Chat().handle) as url:
        _, shown = await run(options(tmp_path, url))
        base = url.removesuffix(PATH)
        assert shown.startswith(f"20 requests over 0.4 s (50/s) to {base}\n")
        _, shown = await run(options(tmp_path, url, url, rounds=2))
        assert shown.startswith(f"20 requests over 0.4 s (50/s) to {base}, {base}, in 2 rounds\n")


async def test_an_address_that_is_no_control_plane_is_told_what_it_answered(tmp_path: Path) -> None:
    async with server(Chat().handle) as url:
        chosen = options(tmp_path, url, control_plane=url.removesuffix(PATH))
        with pytest.raises(StartError, match=r"no control plane's HTTP address.*HTTP 404"):
            await run(chosen)


async def test_a_file_that_cannot_be_written_costs_no_other_output(tmp_path: Path) -> None:
    page, shown = tmp_path / "page.html", io.StringIO()
    chosen = options(
        *(tmp_path, "URL"), report=Path("/dev/full"), html=page, conditions=conditions("valid>9")
    )
    async with server(Chat().handle) as url:
        chosen = replace(chosen, targets=(Target("a", url.removesuffix(PATH)),))
        with pytest.raises(StartError, match=r"--report /dev/full: .*No space left"):
            await run_bench(chosen, Console(file=shown, width=200, color_system=None))
    assert page.read_text().startswith("<!DOCTYPE html>")
    assert "first token" in shown.getvalue() and f"page: {page}" in shown.getvalue()


async def test_what_failures_said_is_shown_and_reported(tmp_path: Path) -> None:
    async def refuse(_: web.Request) -> web.StreamResponse:
        return web.json_response({"error": {"message": "no such model"}}, status=404)

    page = tmp_path / "page.html"
    async with server(Chat(refuse).handle) as url:
        _, shown = await run(options(tmp_path, url, html=page))
    said = 'HTTP 404 {"error": {"message": "no such model"}}'
    assert report(tmp_path)["failure_examples"] == {"status_4xx": said}
    assert f"status_4xx, the first: {said}" in shown
    assert "HTTP 404 {&#34;error&#34;" in page.read_text()


async def test_answers_without_usage_are_counted(tmp_path: Path) -> None:
    async with server(Chat(streaming(NAMED, DONE)).handle) as url:
        _, shown = await run(options(tmp_path, url))
    assert report(tmp_path)["tokens"]["output"] is None
    assert f"answers without usage, whose tokens are not known: {REQUESTS}" in shown


async def test_json_goes_to_standard_output_and_nothing_else_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with server(Chat().handle) as url:
        await run(options(tmp_path, url, json=True))
    assert json.loads(capsys.readouterr().out) == report(tmp_path)


@pytest.mark.parametrize(
    ("texts", "code"),
    [
        (("requests.failed>0",), 0),
        (("requests.failed>0", "requests.ok>=20"), 1),
        (("goodput.fraction<1",), 0),
        (("nodes.n1.share<1",), 0),
        (("nodes.n9.share<1",), 1),
        (("nodes.n1.weight_share>2",), 1),
    ],
)
async def test_a_condition_that_holds_or_is_unknown_fails_the_run(
    tmp_path: Path, texts: tuple[str, ...], code: int
) -> None:
    async with server(Chat().handle) as url:
        found, shown = await run(options(tmp_path, url, conditions=conditions(*texts)))
    assert found == code
    assert ("FAILED: " in shown) == bool(code)
    assert report(tmp_path)["requests"]["ok"] == REQUESTS


async def test_failures_are_counted_by_kind_and_latencies_are_unknown(tmp_path: Path) -> None:
    async def refuse(_: web.Request) -> web.StreamResponse:
        return web.json_response({"error": {"message": "no"}}, status=503)

    async with server(Chat(refuse).handle) as url:
        code, shown = await run(options(tmp_path, url, conditions=conditions("ttft_ms.p99>850")))
    assert code == 1
    assert "failures: status_5xx 20" in shown
    assert report(tmp_path)["failures"] == {"status_5xx": REQUESTS}
    assert report(tmp_path)["ttft_ms"]["p99"] is None


async def test_a_server_that_does_not_stream_is_seen_as_such(tmp_path: Path) -> None:
    async def whole(_: web.Request) -> web.StreamResponse:
        return web.json_response({"choices": [{"message": {"content": "whole"}}]})

    async with server(Chat(whole).handle) as url:
        await run(options(tmp_path, url))
    assert report(tmp_path)["failures"] == {"truncated": REQUESTS}


@pytest.mark.parametrize(
    ("changes", "error", "named"),
    [
        ({"report": Path("/absent/report.json")}, StartError, "--report .*no such directory"),
        ({"report": Path("/")}, StartError, "--report /: cannot be written"),
        ({"html": Path("/absent/page.html")}, StartError, "--html .*no such directory"),
        ({"access_log": Path("/absent.log")}, StartError, "--access-log .*no such file"),
        ({"trace": "/absent.csv"}, StartError, "absent.csv"),
        ({"scenario": Path("/absent.yaml")}, ConfigError, "absent.yaml"),
        *(
            ({"slo": slo, "body": {"stream": False}}, RejectedError, f"--slo {name}: .*streamed")
            for name, slo in (("ttft_ms", Slo(ttft_ms=9)), ("tpot_ms", Slo(tpot_ms=9, e2e_ms=9)))
        ),
        ({"conditions": conditions("ttft_ms.p98>1")}, RejectedError, "p98"),
        ({"conditions": conditions("ratios.b.ttft_ms.p50.ratio>1")}, RejectedError, "ratios"),
        ({"rounds": REQUESTS + 1}, RejectedError, "--rounds 21 .* 20 requests"),
        ({"max_connections": 2**40}, StartError, "--max-connections"),
        ({"control_plane": "http://127.0.0.1:9"}, StartError, "--control-plane .*not answer"),
        ({"access_log": Path("/dev/null")}, StartError, "--access-log .*no regular file"),
        ({"html": Path("/tmp/r"), "report": Path("/tmp/x/../r")}, RejectedError, "--report goes"),
    ],
)
async def test_what_is_wrong_is_found_before_anything_is_sent(
    tmp_path: Path, changes: dict[str, Any], error: type[Exception], named: str
) -> None:
    chat = Chat()
    async with server(chat.handle) as url:
        with pytest.raises(error, match=named):
            await run(options(tmp_path, url, **changes))
    assert chat.prompts == []


@pytest.mark.parametrize("package", ["matplotlib", "jinja2"])
async def test_a_page_without_its_packages_is_refused_before_anything_is_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    chat = Chat()
    async with server(chat.handle) as url:
        with pytest.raises(StartError, match=r"--html needs .*isocost\[bench\]"):
            await run(options(tmp_path, url, html=tmp_path / "page.html"))
    assert chat.prompts == []


async def test_a_target_where_nobody_listens_is_named(tmp_path: Path) -> None:
    async with server(Chat().handle) as url:
        pass
    with pytest.raises(StartError, match=rf"{url.removesuffix(PATH)} accepts no connection"):
        await run(options(tmp_path, url))
    assert not (tmp_path / "report.json").exists()


async def test_a_target_that_is_no_host_is_named(tmp_path: Path) -> None:
    with pytest.raises(StartError, match=r"host\.invalid"):
        await run(options(tmp_path, "http://host.invalid:1" + PATH))


@pytest.mark.parametrize(
    "url",
    [
        *("127.0.0.1:1", "ftp://h", "http://", "http://h:x", "http://h?a=b", "http://h:99999"),
        *("http://a..b:1", f"http://{'a' * 64}:1", ""),
    ],
)
def test_what_is_no_base_url_is_refused(url: str) -> None:
    with pytest.raises(RejectedError, match="base URL"):
        parse_target("t", url)


@pytest.mark.parametrize(
    "url", ["http://u:secret@h", "https://secret@h:1/v1", "ftp://u:secret@h", "u:secret@h"]
)
def test_a_url_with_a_password_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(RejectedError, match="--header") as caught:
        parse_target("t", url)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("end", ["", "/", "/v1", "/v1/", "/v1/chat/completions"])
def test_the_path_of_the_chat_may_be_in_the_url(end: str) -> None:
    target = parse_target("t", f"http://h/team{end}")
    assert target.chat_url == "http://h/team/v1/chat/completions"


def test_a_path_may_hold_an_at_sign() -> None:
    assert parse_target("t", "http://h/@team/v1").url == "http://h/@team/v1"


def test_more_sockets_than_the_system_allows_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int]] = []
    monkeypatch.setattr(bench_run.resource, "getrlimit", lambda _: (100, 1000))
    monkeypatch.setattr(bench_run.resource, "setrlimit", lambda _, to: asked.append(to))
    require_sockets(10)
    assert asked == []
    require_sockets(500)
    assert asked == [(564, 1000)]
    with pytest.raises(StartError, match="at most 936"):
        require_sockets(937)


async def test_targets_get_the_same_requests_with_prompts_of_their_own(tmp_path: Path) -> None:
    one, two = Chat(), Chat()
    async with server(one.handle) as first, server(two.handle) as second:
        code, shown = await run(options(tmp_path, first, second, rounds=4))
    data = report(tmp_path)
    assert code == 0
    assert data["schema"] == "isocost.comparison/1"
    assert (data["baseline"], data["rounds"]) == ("a", 4)
    for target in ("a", "b"):
        assert data["targets"][target]["requests"]["ok"] == REQUESTS
    assert Counter(map(len, one.prompts)) == Counter(map(len, two.prompts))
    # A prefix that one target left in a cache must not help the other.
    heads = Counter(prompt[:20] for prompt in (*one.prompts, *two.prompts))
    assert max(heads.values()) == 1
    assert "ratio to a" in shown


async def test_the_control_plane_is_sampled_on_the_reports_time(tmp_path: Path) -> None:
    async with fake_control_plane() as control_plane, server(Chat().handle) as url:
        control_plane.rows = [row("n1", 0.5, entropy="inf"), row("n2", 1.5)]
        await run(options(tmp_path, url, control_plane=control_plane.url))
    nodes = {node["name"]: node for node in report(tmp_path)["nodes"]}
    assert nodes["n1"]["series"]["entropy"][0] == "inf"
    assert nodes["n1"]["weight_share"] == 0.25
    assert nodes["n2"]["requests"] == 0
    assert report(tmp_path)["imbalance_basis"] == "weight"


async def test_the_access_log_tells_the_retries_of_this_run_only(tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    numbers = iter(range(1000))

    def line(request_id: str, attempts: int) -> str:
        entry = {"request_id": request_id, "attempts": attempts, "node": "n1", "rack": "r"}
        return json.dumps({**entry, "decision": "reason=picked age_ms=9"}) + "\n"

    async def answer(_: web.Request) -> web.StreamResponse:
        request_id = f"r{next(numbers)}"
        with log.open("a") as file:
            file.write(line(request_id, 2 if request_id == "r3" else 1))
            file.write(line(f"other-{request_id}", 5))
        return web.Response(body=NAMED + USAGE + DONE, headers={"x-request-id": request_id})

    log.write_text(line("r5", 7))
    async with server(Chat(answer).handle) as url:
        await run(options(tmp_path, url, access_log=log))
    assert report(tmp_path)["requests"]["retried"] == 1


def scenario(tmp_path: Path, node_url: str, end_s: str = "end_s: 0.2") -> Path:
    path = tmp_path / "scenario.yaml"
    path.write_text(
        f"nodes: {{n1: '{node_url}'}}\n"
        f"faults: [{{node: n1, fault: slow, factor: 2, start_s: 0.1, {end_s}}}]\n"
    )
    return path


async def test_a_control_plane_that_dies_is_told(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    async with fake_control_plane() as control_plane:

        async def answer(request: web.Request) -> web.StreamResponse:
            control_plane.status = 503
            return await streaming(NAMED, 1.5, USAGE, DONE)(request)

        control_plane.rows = [row("n1")]
        async with server(Chat(answer).handle) as url:
            _, shown = await run(options(tmp_path, url, control_plane=control_plane.url, html=page))
    samples = report(tmp_path)["samples"]
    assert samples["answered"] < samples["asked"]
    told = f"answered {samples['answered']} of {samples['asked']} samples"
    assert f"WARNING: the control plane {told}" in shown
    assert told in page.read_text()


async def test_a_fault_after_the_last_request_is_noted_before_the_load(tmp_path: Path) -> None:
    async with fault_node() as node, server(Chat().handle) as url:
        chosen = scenario(tmp_path, node.url, "end_s: null")
        chosen.write_text(chosen.read_text().replace("start_s: 0.1", "start_s: 7"))
        _, shown = await run(options(tmp_path, url, scenario=chosen))
    assert "note: --scenario: slow of n1 begins after 7 s" in shown.partition("first token")[0]
    # There is but one phase, and it has its line.
    assert "before" in shown


async def test_an_interrupt_of_the_rehearsal_leaves_nothing_on_the_nodes(tmp_path: Path) -> None:
    chat = Chat()
    async with fault_node() as node, server(chat.handle) as url:
        node.told = lambda: os.kill(os.getpid(), signal.SIGTERM)
        code, _ = await run(options(tmp_path, url, scenario=scenario(tmp_path, node.url)))
    assert code == 130
    assert chat.prompts == []
    assert node.calls[-1][0] == "DELETE"


async def test_faults_are_rehearsed_ordered_reported_and_taken_back(tmp_path: Path) -> None:
    chat = Chat()
    async with fault_node() as node, server(chat.handle) as url:
        await run(options(tmp_path, url, scenario=scenario(tmp_path, node.url)))
    methods = [method for method, _ in node.calls]
    assert methods == ["POST", "DELETE", "POST", "DELETE"]
    assert node.calls[0][1][0]["after_s"] > 1000
    assert node.calls[2][1] == [{"fault": "slow", "factor": 2, "after_s": 0.1, "for_s": 0.1}]
    data = report(tmp_path)
    assert data["faults"] == [
        {"node": "n1", "fault": "slow", "start_s": 0.1, "end_s": 0.2, "parameters": {"factor": 2}}
    ]
    assert [phase["name"] for phase in data["phases"]] == ["before", "slow", "after"]


async def test_each_target_meets_the_same_faults(tmp_path: Path) -> None:
    async with fault_node() as node, server(Chat().handle) as one, server(Chat().handle) as two:
        await run(options(tmp_path, one, two, scenario=scenario(tmp_path, node.url)))
    orders = [body for method, body in node.calls[2:] if method == "POST"]
    assert len(orders) == 2 and orders[0] == orders[1]


async def test_a_node_that_does_not_take_its_fault_ends_the_run_before_any_load(
    tmp_path: Path,
) -> None:
    chat = Chat()
    async with fault_node() as node, server(chat.handle) as url:
        node.status = 400
        with pytest.raises(StartError, match=r"does not take the order: HTTP 400"):
            await run(options(tmp_path, url, scenario=scenario(tmp_path, node.url)))
    assert chat.prompts == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_an_interrupted_run_reports_what_it_has_and_takes_its_faults_back(
    tmp_path: Path, number: signal.Signals
) -> None:
    answered = 0

    async def answer(request: web.Request) -> web.StreamResponse:
        nonlocal answered
        answered += 1
        if answered == 6:
            os.kill(os.getpid(), number)
        return await streaming(NAMED, USAGE, DONE)(request)

    async with fault_node() as node, server(Chat(answer).handle) as url:
        code, shown = await run(
            options(
                tmp_path,
                url,
                duration_s=3600.0,
                rate=20.0,
                rate_scale=1.0,
                conditions=conditions("requests.ok>0"),
                scenario=scenario(tmp_path, node.url, "end_s: null"),
            )
        )
    data = report(tmp_path)
    assert code == 130
    assert data["interrupted"] is True and "INTERRUPTED" in shown
    counts = data["requests"]
    assert 4 <= counts["ok"] <= counts["sent"] < 40
    assert (
        data["failures"].get("unanswered", 0) == counts["failed"] == counts["sent"] - counts["ok"]
    )
    assert data["trace"]["duration_s"] < 60
    assert [method for method, _ in node.calls] == ["POST", "DELETE", "POST", "DELETE"]


async def test_a_signal_that_is_ignored_stays_ignored(tmp_path: Path) -> None:
    """`nohup` lets a run outlive its terminal."""

    async def answer(request: web.Request) -> web.StreamResponse:
        os.kill(os.getpid(), signal.SIGHUP)
        return await streaming(NAMED, USAGE, DONE)(request)

    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        async with server(Chat(answer).handle) as url:
            code, _ = await run(options(tmp_path, url))
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
    assert code == 0
    assert report(tmp_path)["requests"]["ok"] == REQUESTS
    assert report(tmp_path)["interrupted"] is False


async def test_rates_of_a_trace_that_ends_early_are_over_its_own_time(tmp_path: Path) -> None:
    trace = tmp_path / "trace.csv"
    rows = [f"2024-01-01 00:00:00.{tenth},10,11" for tenth in range(5)]
    trace.write_text("\n".join(["TIMESTAMP,ContextTokens,GeneratedTokens", *rows]) + "\n")
    async with server(Chat().handle) as url:
        await run(options(tmp_path, url, trace=str(trace), rate=None, duration_s=3600.0))
    data = report(tmp_path)
    assert (data["trace"]["duration_s"], data["trace"]["rate_per_s"]) == (0.4, 12.5)
    assert data["goodput"]["requests_per_s"] > 5 / 60


async def test_a_node_that_its_fault_keeps_away_is_waited_for(tmp_path: Path) -> None:
    async with fault_node() as node, server(Chat().handle) as url:
        node.away = 5
        code, shown = await run(options(tmp_path, url, url, scenario=scenario(tmp_path, node.url)))
    assert code == 0
    assert [method for method, _ in node.calls][2:] == ["POST", "DELETE"] * 2
    assert report(tmp_path)["interrupted"] is False
    assert "WARNING: a fault" not in shown


async def test_a_node_that_stays_away_ends_the_comparison_with_what_was_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("isocost.bench.measure._GRACE_S", 0.0)
    shown = io.StringIO()
    async with fault_node() as node, server(Chat().handle) as url:
        node.away = 10**9
        chosen = options(tmp_path, url, url, rounds=2, scenario=scenario(tmp_path, node.url))
        with pytest.raises(
            StartError, match=rf"left a fault behind: node {node.url} does not answer"
        ):
            await run_bench(chosen, Console(file=shown, width=200, color_system=None))
    data = report(tmp_path)
    assert data["interrupted"] is True
    sent = {name: of["requests"]["ok"] for name, of in data["targets"].items()}
    assert sorted(sent.values()) == [0, REQUESTS // 2]
    assert "WARNING: a fault was not taken back" in shown.getvalue()


async def test_a_later_turn_whose_faults_are_refused_costs_no_turn_before(tmp_path: Path) -> None:
    async with fault_node() as node:

        async def answer(request: web.Request) -> web.StreamResponse:
            node.status = 503
            return await streaming(NAMED, USAGE, DONE)(request)

        async with server(Chat(answer).handle) as url:
            chosen = options(tmp_path, url, url, rounds=2, scenario=scenario(tmp_path, node.url))
            with pytest.raises(StartError, match=r"could not begin: node .*HTTP 503"):
                await run(chosen)
    targets = report(tmp_path)["targets"]
    assert sum(of["requests"]["ok"] for of in targets.values()) == REQUESTS // 2


async def test_an_interrupted_comparison_compares_whole_turns_only(tmp_path: Path) -> None:
    answered = 0

    async def answer(request: web.Request) -> web.StreamResponse:
        nonlocal answered
        answered += 1
        if answered == REQUESTS + 2:
            os.kill(os.getpid(), signal.SIGINT)
        return await streaming(NAMED, USAGE, DONE)(request)

    async with server(Chat(answer).handle) as url:
        code, _ = await run(options(tmp_path, url, url, rounds=2))
    data = report(tmp_path)
    assert code == 130
    assert (data["rounds"], data["interrupted"]) == (1, True)
    sent = [data["targets"][name]["requests"]["sent"] for name in "ab"]
    assert REQUESTS < sum(sent) < 2 * REQUESTS


async def test_a_turn_that_was_sent_whole_and_not_answered_is_not_compared(tmp_path: Path) -> None:
    answered = 0

    async def answer(request: web.Request) -> web.StreamResponse:
        nonlocal answered
        answered += 1
        if answered < 2 * REQUESTS:
            return await streaming(NAMED, USAGE, DONE)(request)
        os.kill(os.getpid(), signal.SIGINT)
        return await streaming(NAMED, 60.0)(request)

    async with server(Chat(answer).handle) as url:
        _, shown = await run(options(tmp_path, url, url))
    data = report(tmp_path)
    assert data["rounds"] == 1
    assert data["ratios"]["b"]["goodput"]["reason"] == "no round was completed by both"
    assert "no round was completed by both" in shown


async def test_what_hung_at_an_interrupt_is_in_the_report_and_the_run_ends_there(
    tmp_path: Path,
) -> None:
    answered, page = 0, tmp_path / "page.html"

    async def answer(request: web.Request) -> web.StreamResponse:
        nonlocal answered
        answered += 1
        if answered == REQUESTS:
            os.kill(os.getpid(), signal.SIGINT)
        return await streaming(NAMED, 60.0)(request)

    async with server(Chat(answer).handle) as url:
        code, shown = await run(options(tmp_path, url, html=page))
    data = report(tmp_path)
    assert code == 130
    assert data["failures"] == {"unanswered": REQUESTS}
    assert data["goodput"]["fraction"] == 0
    assert data["nodes"][0]["requests"] == REQUESTS
    assert "counted as unanswered" in shown
    assert "This run was interrupted" in page.read_text()


async def test_a_busy_machine_makes_the_run_invalid_and_names_who_was_busy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    readings = iter([CpuTimes(0, 0), CpuTimes(950, 1000)])
    monkeypatch.setattr("isocost.bench.processes.cpu_times", lambda: next(readings))
    async with server(Chat().handle) as url:
        code, shown = await run(options(tmp_path, url, conditions=conditions("valid<1")))
    data = report(tmp_path)
    assert (data["valid"], data["machine_busy"]) == (False, 0.95)
    assert code == 1
    assert "INVALID: the machine was 95.0% busy" in shown
    assert str(os.getpid()) in shown.partition("INVALID")[2]
