"""Parts that the page of a report and the page of a comparison both have."""

from __future__ import annotations

from collections.abc import Iterable

from isocost.bench.machine import BUSY_LIMIT
from isocost.bench.page.read import Data, at, items, mapping, real, text
from isocost.bench.page.text import count, number, percent, printable, quantity
from isocost.bench.page.view import Block, Note, Section, Table


def run_facts(data: Data) -> dict[str, str]:
    """The trace, the seed and the versions."""
    trace = mapping(data, "trace")
    facts = {"Trace": printable(text(trace, "name"))}
    facts["Requests"] = count(real(trace, "requests"))
    facts["Duration"] = quantity(real(trace, "duration_s"), "s")
    facts["Rate"] = quantity(real(trace, "rate_per_s"), "requests/s")
    for name, key in (("Time scale", "time_scale"), ("Rate scale", "rate_scale")):
        if real(trace, key) not in {None, 1.0}:
            facts[name] = f"{number(real(trace, key))} times"
    facts["Seed"] = printable(at(data, "seed"))
    for name, version in mapping(data, "versions").items():
        facts[f"Version of {printable(name)}"] = printable(version)
    return facts


def policy_facts(report: Data) -> dict[str, str]:
    """The policy, of a run that knows it."""
    policy = text(report, "policy")
    return {} if policy is None else {"Policy": printable(policy)}


def interruption(data: Data) -> tuple[Block, ...]:
    """That the run was cut short."""
    if not at(data, "interrupted"):
        return ()
    words = (
        "What had no answer when it ended counts as unanswered; a comparison's ratios are of the "
        "rounds that all targets completed."
    )
    return (Note(words, title="This run was interrupted", warning=True),)


def validity(data: Data) -> tuple[Block, ...]:
    """Whether the figures mean anything; where not, a warning with what took the CPU."""
    busy, limit = percent(real(data, "machine_busy")), percent(BUSY_LIMIT)
    if at(data, "valid") is False:
        warning = Note(
            f"The machine was busy for {busy} of the run; above {limit} the generator and the "
            "measured processes take CPU from each other. Do not use these figures: give the "
            "run more CPU, or less rate, and repeat it.",
            title="This run is not valid",
            warning=True,
        )
        return (warning, *processes(data))
    if at(data, "valid") is True:
        return (Note(f"Valid: the machine was busy for {busy} of the run (limit {limit})."),)
    return (Note("Whether the machine was too busy is not known: it was not measured."),)


def processes(data: Data) -> tuple[Block, ...]:
    rows = [
        (
            printable(at(process, "name")),
            printable(at(process, "pid")),
            percent(real(process, "cpu_fraction")),
        )
        for process in items(data, "processes")
    ]
    if not rows:
        return (Note("The processes were not measured."),)
    return (Table("CPU over the run, of one core", ("Process", "PID", "CPU"), rows),)


def processes_section(data: Data) -> Iterable[Section]:
    """The processes, unless the warning at the top has them already."""
    if at(data, "valid") is not False:
        yield Section("processes", "Processes", processes(data))


def slo_facts(slo: Data) -> str:
    """The limits that an answer must keep to be good, on one line."""
    names = (("TTFT", "ttft_ms"), ("TPOT", "tpot_ms"), ("end to end", "e2e_ms"))
    limits = [
        f"{name} ≤ {number(real(slo, key))} ms" for name, key in names if real(slo, key) is not None
    ]
    return ", ".join(limits) or "none set"
