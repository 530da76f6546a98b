"""A bench run from its checks to its exit code: nothing is sent before all is found in order."""

from __future__ import annotations

import platform
import resource
import signal
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import aiohttp
from rich.console import Console

from isocost import __version__
from isocost.bench import fault_orders, json_text
from isocost.bench.assemble import Measurement, assemble
from isocost.bench.comparison import Comparison, compare
from isocost.bench.condition import Condition
from isocost.bench.console import print_text
from isocost.bench.control_plane import ControlPlane
from isocost.bench.load import Load, Wanted, load_run
from isocost.bench.measure import Course, Measured
from isocost.bench.options import BenchOptions
from isocost.bench.outputs import require_drawing, require_writable, write_text
from isocost.bench.page import render
from isocost.bench.progress import display_for
from isocost.bench.replay import is_streamed
from isocost.bench.report import Report, TargetInfo, TraceInfo
from isocost.bench.rounds import RoundResults, schedule, slices
from isocost.bench.scenario import Scenario, read_scenario
from isocost.bench.stop_signals import stopping_on_signals
from isocost.bench.summary import print_comparison, print_machine, print_report, say
from isocost.bench.target import Target, require_listening
from isocost.errors import RejectedError, StartError

#: Files that the process has open beside its connections to the target.
_OTHER_FILES = 64


async def run_bench(options: BenchOptions, console: Console) -> int:
    """Run the bench; the exit code: 0, 1 where a condition holds or its value is unknown, 130
    where it was interrupted. What is wrong with the options is an error before anything is sent.
    StartError after all else: the faults of a later turn could not be ordered, or a file could
    not be written.
    """
    _check_outputs(options)
    _check_slo(options)
    for condition in options.conditions:
        condition.check(Report if len(options.targets) == 1 else Comparison)
    scenario = read_scenario(options.scenario) if options.scenario else None
    wanted = Wanted(
        options.seed, options.duration_s, options.rate, options.time_scale, options.rate_scale
    )
    trace = load_run(
        options.trace, options.format, wanted, lambda text: say(console, f"note: {text}")
    )
    if options.rounds > len(trace.requests):
        raise RejectedError(
            f"--rounds {options.rounds} is not allowed; "
            f"the trace has {len(trace.requests)} requests"
        )
    require_sockets(options.max_connections)
    measured = await _measure(options, trace, scenario, console)
    outcome = _outcome(options, trace, scenario, measured)
    data = outcome.to_data()
    _print(outcome, measured, console)
    problems = [] if measured.broken is None else [measured.broken]
    problems += _write(options, data, console)
    failed = [not _passes(condition, data, console) for condition in options.conditions]
    if options.json:
        try:
            print_text(_json(data))
        except StartError as error:
            problems.append(str(error))
    if problems:
        raise StartError("\n".join(problems))
    if measured.interrupted:
        return 128 + signal.SIGINT
    return 1 if any(failed) else 0


def require_sockets(wanted: int) -> None:
    """Let the process open that many connections; StartError where the system forbids it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + _OTHER_FILES
    if hard != resource.RLIM_INFINITY and needed > hard:
        raise StartError(
            f"--max-connections {wanted}: this process may open {hard} files; choose at most "
            f"{hard - _OTHER_FILES}, or raise the limit (ulimit -n)"
        )
    if soft != resource.RLIM_INFINITY and needed > soft:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


def _check_outputs(options: BenchOptions) -> None:
    if options.report and options.html and options.report.resolve() == options.html.resolve():
        raise RejectedError(f"--html {options.html} is not allowed; --report goes there")
    if options.report is not None:
        require_writable("--report", options.report)
    if options.html is not None:
        require_writable("--html", options.html)
        require_drawing()
    if options.access_log is not None and not options.access_log.is_file():
        there = "is no regular file" if options.access_log.exists() else "there is no such file"
        raise StartError(f"--access-log {options.access_log}: {there}")


def _check_slo(options: BenchOptions) -> None:
    """A limit that no answer can keep would make the goodput 0."""
    if is_streamed(options.body):
        return
    for name, limit_ms in (("ttft_ms", options.slo.ttft_ms), ("tpot_ms", options.slo.tpot_ms)):
        if limit_ms is not None:
            raise RejectedError(
                f"--slo {name}: answers that are not streamed have no first token; "
                "e2e_ms is allowed"
            )


async def _measure(
    options: BenchOptions, trace: Load, scenario: Scenario | None, console: Console
) -> Measured:
    for target in options.targets:
        await require_listening(target, options.connect_timeout_s)
    turns = schedule(options.targets, slices(trace.requests, options.rounds), options.seed)
    async with aiohttp.ClientSession() as session:
        if options.control_plane is not None:
            await ControlPlane(session, options.control_plane).require()
        course = Course(options, turns, scenario, session)
        # From here on: a node must not be left with what was rehearsed.
        with stopping_on_signals(lambda _: course.stop()):
            if scenario is not None:
                await fault_orders.rehearse(session, scenario.rehearsal())
            for line in _plan(options, trace, scenario):
                say(console, line)
            with display_for(console) as display:
                return await course.run(display)


def _plan(options: BenchOptions, trace: Load, scenario: Scenario | None) -> Iterator[str]:
    """What will be sent, and what of the scenario will not come to it."""
    info = TraceInfo(options.trace, len(trace.requests), trace.duration_s)
    rate = f" ({info.rate_per_s:.3g}/s)" if info.rate_per_s is not None else ""
    targets = ", ".join(target.url for target in options.targets)
    rounds = f", in {options.rounds} rounds" if options.rounds > 1 else ""
    yield f"{info.requests:,} requests over {info.duration_s:.4g} s{rate} to {targets}{rounds}"
    for fault in scenario.ordered() if scenario else ():
        if fault.start_s >= info.duration_s:
            yield (
                f"note: --scenario: {fault.fault} of {fault.node} begins after "
                f"{fault.start_s:g} s, when nothing is sent any more"
            )


def _outcome(
    options: BenchOptions, trace: Load, scenario: Scenario | None, measured: Measured
) -> Report | Comparison:
    """The report of one target, or the comparison of several."""
    runs = {
        target.name: _measurement(options, target, trace, scenario, measured)
        for target in options.targets
    }
    if len(runs) == 1:
        return assemble(next(iter(runs.values())))
    rounds = [
        RoundResults(turned.turn.round, turned.turn.target.name, turned.results)
        for turned in measured.turned
        # A turn that an interrupt cut short cannot stand beside a whole one.
        if turned.whole
    ]
    return compare(rounds, runs)


def _measurement(
    options: BenchOptions,
    target: Target,
    trace: Load,
    scenario: Scenario | None,
    measured: Measured,
) -> Measurement:
    turned = [item for item in measured.turned if item.turn.target is target]
    duration_s, count = trace.duration_s, len(trace.requests)
    if measured.interrupted:
        duration_s, count = (
            min(duration_s, measured.end_s),
            sum(len(item.results) for item in turned),
        )
    return Measurement(
        seed=options.seed,
        results=tuple(result for item in turned for result in item.results),
        versions={"isocost": __version__, "python": platform.python_version()},
        target=TargetInfo(target.name, target.url),
        trace=TraceInfo(options.trace, count, duration_s, options.time_scale, options.rate_scale),
        slo=options.slo,
        log=tuple(entry for item in turned for entry in item.log),
        samples=tuple(sample for item in turned for sample in item.samples),
        faults=scenario.ordered() if scenario else (),
        push_interval_ms=measured.push_interval_ms,
        machine_busy=measured.machine_busy,
        processes=measured.processes,
        interrupted=measured.interrupted,
    )


def _write(options: BenchOptions, data: dict[str, Any], console: Console) -> list[str]:
    """Write the files that were asked for, each whatever became of the others; the problems."""
    wanted: list[tuple[str, str, Path | None, Callable[[dict[str, Any]], str]]] = [
        ("--report", "report", options.report, _json),
        ("--html", "page", options.html, render),
    ]
    problems = []
    for option, what, path, text in wanted:
        try:
            if path is not None:
                write_text(option, path, text(data))
                say(console, f"{what}: {path}")
        except StartError as error:
            problems.append(str(error))
    return problems


def _json(data: dict[str, Any]) -> str:
    return json_text.text(data) + "\n"


def _print(outcome: Report | Comparison, measured: Measured, console: Console) -> None:
    if isinstance(outcome, Report):
        print_report(console, outcome)
    else:
        print_comparison(console, outcome)
    print_machine(console, outcome.machine_busy, outcome.valid, outcome.processes)
    for problem in measured.problems:
        say(console, f"WARNING: a fault was not taken back: {problem}", "bold yellow")
    if measured.interrupted:
        say(
            console,
            "INTERRUPTED: what had no answer by then is counted as unanswered",
            "bold yellow",
        )


def _passes(condition: Condition, data: Mapping[str, Any], console: Console) -> bool:
    """Whether the condition is known not to hold; says so where it is not."""
    try:
        value = condition.value(data)
    except RejectedError as error:
        say(console, f"FAILED: {error}", "bold red")
        return False
    if value is None:
        say(console, f"FAILED: {condition.text}: its value is not known", "bold red")
        return False
    if condition.holds(value):
        say(console, f"FAILED: {condition.text}: it is {value:g}", "bold red")
        return False
    return True
