"""Every fault of an engine or its network is in the report of a run, and gone after its end.

Each fault has a run and a node of its own, several at the same time; a run with a fault that does
nothing shows that no check passes without its fault. Requests keep clear of the fault's edges, so
that counts are exact. Faults of the telemetry are in test_bench_telemetry_faults.py.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Mapping
from itertools import cycle
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
import pytest_asyncio

from isocost.fake.faults import KINDS
from tests.integration.harness.fault_runs import Ask, FaultyNodes, write_asks

Data = dict[str, Any]

#: Runs at the same time. Each begins with so much idle time that those that are still starting do
#: not disturb it.
AT_ONCE, IDLE_S = 5, 2
#: Seconds of the trace. Requests keep 0.6 s clear of both edges.
START_S, END_S = 4.6, 7.4
FACTOR, DELAY_MS = 3.0, 150.0
#: Prompts begin with one of these; where the cache is cold, 0.08 s go by until it is computed.
PREFIXES, PREFIX_BLOCKS = 5, 6
#: Seconds of the trace, and steps of the series: every prefix once, and then four times.
COLD_S, WARM_S = (IDLE_S, 8), (IDLE_S + 1, 9)
#: Before the fault, and open when it begins.
OPEN_S = (4.0, 4.01, 4.02, 4.03)
DURING_S = [5.2 + number * 0.1 for number in range(15)]
#: A request of 16 tokens lasts 0.15 s, an open one 0.9 s: it ends after the fault's beginning and
#: before the next requests, which could take over its connection while a refusing node closes it.
TOKENS, OPEN_TOKENS = 16, 120
#: Requests of the last phase.
AFTER = 5 * PREFIXES

#: What is ordered, by the fault's name.
FAULTS: dict[str, Data] = {
    "slow": {"factor": FACTOR},
    "hang": {},
    "status": {"status": 503},
    "refuse": {},
    "reset": {"chunks": 2},
    "oom": {},
    "restart": {},
    "delay": {"ms": DELAY_MS},
    "loss": {"fraction": 0.3},
}
#: Those of the telemetry have a test of their own.
TELEMETRY: dict[str, Data] = {
    "stale_metrics": {},
    "frozen_metrics": {},
    "clock_skew": {"seconds": -30.0},
}
#: A fault that does nothing, for the same time.
NOTHING = ("slow", {"factor": 1})


def trace() -> list[Ask]:
    cold_s = [second + number / PREFIXES for second in COLD_S for number in range(PREFIXES)]
    warm_s = [second + number / 20 for second in WARM_S for number in range(4 * PREFIXES)]
    prefixes = cycle(range(PREFIXES))
    return [
        Ask(0.0, TOKENS),
        *(
            Ask(at_s, TOKENS, next(prefixes), PREFIX_BLOCKS)
            for at_s in (*cold_s, *warm_s, *DURING_S)
        ),
        *(Ask(at_s, OPEN_TOKENS) for at_s in OPEN_S),
    ]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def reports(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[dict[str, Data]]:
    """The report of each fault's run by the fault's name, and "nothing"."""
    folder = tmp_path_factory.mktemp("faults")
    path = write_asks(folder / "trace.jsonl", trace())
    wanted = {**{name: (name, more) for name, more in FAULTS.items()}, "nothing": NOTHING}
    nodes = await FaultyNodes(len(wanted), folder).ready()

    async def run(node: str, fault: str, parameters: Data) -> Data:
        order = {"node": node, "fault": fault, "start_s": START_S, "end_s": END_S, **parameters}
        return await nodes.bench(node, path, [order], "--request-timeout", "15")

    try:
        found: list[Data] = []
        runs = list(zip(nodes.urls, wanted.values(), strict=True))
        for first in range(0, len(runs), AT_ONCE):
            part = runs[first : first + AT_ONCE]
            found += await asyncio.gather(*(run(node, *order) for node, order in part))
        yield dict(zip(wanted, found, strict=True))
    finally:
        await nodes.stop()


def phase(report: Data, name: str) -> Data:
    """A phase by its name; the fault's own is "during"."""
    before, during, after = report["phases"]
    assert before["name"] == "before" and after["name"] == "after"
    return dict({"before": before, "during": during, "after": after}[name])


def grown(report: Data, figure: str) -> float:
    """The median while the fault held over the median before it, of the one node."""
    (before,), (during,) = (phase(report, name)["nodes"] for name in ("before", "during"))
    return float(during[f"{figure}_p50_ms"] / before[f"{figure}_p50_ms"])


def all_fail(report: Data, kind: str) -> None:
    """Every request of the fault failed in this way, and none of before or after did."""
    during = phase(report, "during")
    count = len(DURING_S)
    assert during["requests"] == {"sent": count, "ok": 0, "failed": count, "rejected": 0}
    assert during["failures"] == {kind: len(DURING_S)}


def open_ones(report: Data, failures: Mapping[str, int]) -> None:
    """What came of those that were open when the fault began."""
    assert phase(report, "before")["failures"] == failures


def cold_again(report: Data) -> bool:
    """Whether prompts that the cache knew before the fault had to be computed after it."""
    ttft_ms = report["series"]["ttft_p50_ms"]
    (first, after), (_, warm) = COLD_S, WARM_S
    # The measure is what the first second of the run cost over a warm one.
    return bool(ttft_ms[after] - ttft_ms[warm] > (ttft_ms[first] - ttft_ms[warm]) / 2)


def slow(report: Data) -> None:
    assert FACTOR / 1.5 < grown(report, "tpot") < FACTOR * 1.5
    assert FACTOR / 2 < grown(report, "ttft") < FACTOR * 1.5
    open_ones(report, {})


def hang(report: Data) -> None:
    during = phase(report, "during")
    waits_ms = [(END_S - at_s) * 1e3 for at_s in DURING_S]
    assert during["requests"]["ok"] == len(DURING_S)
    for figure in ("ttft_ms", "e2e_ms"):
        # The node's clock begins when it takes the order, just before the run's.
        assert during[figure]["mean"] > fmean(waits_ms) - 100
        assert max(waits_ms) - 100 < during[figure]["max"] < max(waits_ms) + 1500
    open_ones(report, {})


def status(report: Data) -> None:
    all_fail(report, "status_5xx")
    open_ones(report, {})


def refuse(report: Data) -> None:
    all_fail(report, "connect")
    open_ones(report, {})
    assert not cold_again(report)


def reset(report: Data) -> None:
    all_fail(report, "reset")
    open_ones(report, {"reset": len(OPEN_S)})


def died(report: Data) -> None:
    all_fail(report, "connect")
    open_ones(report, {"bad_event": len(OPEN_S)})
    assert cold_again(report)


def delay(report: Data) -> None:
    before, during = phase(report, "before"), phase(report, "during")
    # The request's way there and the first piece's way back.
    later_ms = during["ttft_ms"]["p50"] - before["ttft_ms"]["p50"]
    assert 2 * DELAY_MS - 30 < later_ms < 2 * DELAY_MS + 150
    assert 0.6 < grown(report, "tpot") < 1.6
    open_ones(report, {})


def loss(report: Data) -> None:
    before, during = phase(report, "before"), phase(report, "during")
    assert during["ttft_ms"]["p90"] > before["ttft_ms"]["p50"] + 180
    assert during["tpot_ms"]["p90"] > 1.5 * before["tpot_ms"]["p50"]
    assert during["failures"] == {}
    open_ones(report, {})


SHOWN: dict[str, Callable[[Data], None]] = {
    "slow": slow,
    "hang": hang,
    "status": status,
    "refuse": refuse,
    "reset": reset,
    "oom": died,
    "restart": died,
    "delay": delay,
    "loss": loss,
}


def gone(report: Data) -> None:
    """After the fault all is as it was before it."""
    before, after = phase(report, "before"), phase(report, "after")
    assert after["requests"] == {"sent": AFTER, "ok": AFTER, "failed": 0, "rejected": 0}
    for figure in ("ttft_ms", "tpot_ms", "e2e_ms"):
        assert after[figure]["p50"] < 1.5 * before[figure]["p50"] + 5
    assert after["ttft_ms"]["p90"] < before["ttft_ms"]["p50"] + 150


@pytest.mark.parametrize("name", FAULTS)
def test_the_report_names_the_fault_with_its_times(reports: dict[str, Data], name: str) -> None:
    report = reports[name]
    (fault,) = report["faults"]
    assert fault["fault"] == name
    assert (fault["start_s"], fault["end_s"]) == (START_S, END_S)
    assert fault["parameters"] == FAULTS[name]
    during = phase(report, "during")
    assert during["name"] == name
    assert (during["start_s"], during["end_s"]) == (START_S, END_S)


@pytest.mark.parametrize("name", FAULTS)
def test_the_phase_of_the_fault_shows_what_it_does(reports: dict[str, Data], name: str) -> None:
    SHOWN[name](reports[name])


@pytest.mark.parametrize("name", FAULTS)
def test_without_the_fault_the_report_does_not_show_it(reports: dict[str, Data], name: str) -> None:
    with pytest.raises(AssertionError):
        SHOWN[name](reports["nothing"])


@pytest.mark.parametrize("name", [*FAULTS, "nothing"])
def test_the_fault_is_gone_after_its_end(reports: dict[str, Data], name: str) -> None:
    gone(reports[name])


async def test_report_and_page_name_every_kind_of_fault_with_its_node_times_and_parameters(
    tmp_path: Path,
) -> None:
    wanted = FAULTS | TELEMETRY
    assert wanted.keys() == KINDS.keys()
    path = write_asks(tmp_path / "trace.jsonl", [Ask(number / 10, TOKENS) for number in range(10)])
    page = tmp_path / "page.html"
    nodes = await FaultyNodes(len(wanted), tmp_path).ready()
    try:
        orders = [
            {"node": node, "fault": fault, "start_s": 0.25, "end_s": 0.75, **more}
            for node, (fault, more) in zip(nodes.urls, wanted.items(), strict=True)
        ]
        report = await nodes.bench("n-1", path, orders, "--html", str(page))
    finally:
        await nodes.stop()
    for fault, order in zip(report["faults"], orders, strict=True):
        assert {**fault, **fault["parameters"]} == {**order, "parameters": wanted[order["fault"]]}
    text = page.read_text()
    rows = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in text.split("<tr>")]
    for order in orders:
        node, fault = order["node"], order["fault"]
        parameters = ", ".join(f"{key} {value}" for key, value in wanted[fault].items())
        assert [node, fault, parameters or "\N{EN DASH}", "0.25", "0.75"] in rows
        assert f">{fault} {node}<" in text, "the plot names it"
