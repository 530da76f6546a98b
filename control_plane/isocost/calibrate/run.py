"""A calibration from its first question to its answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from isocost.bench.target import Target
from isocost.calibrate.http_engine import Served, connected
from isocost.calibrate.measure import Engine, Measured, measure
from isocost.calibrate.plan import Load, Plan
from isocost.calibrate.result import Calibration, Subject, evaluate
from isocost.errors import RejectedError, StartError
from isocost.fake.models import MODELS
from isocost.model import EngineSample

#: Engines count prompts a little differently than they tell them.
_COUNTING_SLACK = 1.02

Note = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Options:
    target: Target
    plan: Plan
    model: str | None
    gpu_kind: str | None
    gpu_count: int
    kv_bytes_per_token: int | None
    headers: Mapping[str, str]
    #: Of the prompts: no two runs may have the same.
    seed: int


async def calibrate(options: Options, note: Note, planned: Callable[[Load], None]) -> Calibration:
    """``planned`` gets the mix before anything is sent: what does not fit it is refused there.

    FitError: no coefficients. StartError, RejectedError: it could not be measured.
    """
    async with connected(options.target, options.headers, options.seed) as engine:
        served = await engine.serve(options.model)
        subject = _subject(options, served)
        sample = await engine.sample()
        if sample is None or not sample.running.known:
            note("there is no metrics page to be read: make sure that nobody else uses the engine")
        loads = options.plan.loads(_pool_tokens(sample), served.max_tokens)
        planned(loads[-1])
        return await calibrate_engine(engine, subject, options.plan, loads, note)


async def calibrate_engine(
    engine: Engine, subject: Subject, plan: Plan, loads: tuple[Load, ...], note: Note
) -> Calibration:
    """The engine alone, under each load, under the mix, and alone again: cards slow down as they
    get warm.
    """
    note(
        f"{subject.model}: {len(loads)} loads of {plan.seconds:g} s or more; the engine must have "
        "no other traffic"
    )
    begin = await engine.sample()
    results: list[Measured] = []
    turns: list[Load | None] = [None, *loads, None]
    for turn, load in enumerate(turns, 1):
        result = await measure(engine, load, plan.seconds if load else plan.seconds / 2)
        results.append(result)
        note(f"{turn:3d}/{len(turns)}  {_described(load)}: TPOT {result.token_s * 1e3:.2f} ms")
    _require_alone(begin, await engine.sample(), results)
    first, *loaded, mix, last = results
    return evaluate(subject, plan, [first, last], loaded, mix)


def _subject(options: Options, served: Served) -> Subject:
    kv_bytes = options.kv_bytes_per_token
    if kv_bytes is None and served.root in MODELS:
        kv_bytes = MODELS[served.root].kv_bytes_per_token
    if kv_bytes is None:
        raise RejectedError(
            f"--kv-bytes-per-token is needed for {served.model}: 2 x layers x KV heads x head size "
            "x bytes of a value (131072 for Llama-3.1-8B in 16 bits)"
        )
    return Subject(options.target.url, served.model, options.gpu_kind, options.gpu_count, kv_bytes)


def _described(load: Load | None) -> str:
    if load is None:
        return "alone"
    if len(load.shapes) > 1:
        return f"all lengths, {load.concurrency} at once"
    shape = load.shapes[0]
    return f"{shape.input_tokens} + {shape.output_tokens} tokens, {load.concurrency} at once"


def _pool_tokens(sample: EngineSample | None) -> float | None:
    if sample is None or not sample.kv_pool_tokens.known:
        return None
    return sample.kv_pool_tokens.value


def _require_alone(
    begin: EngineSample | None, end: EngineSample | None, results: list[Measured]
) -> None:
    """StartError: the engine computed prompts that were not ours."""
    if begin is None or end is None:
        return
    before, after = begin.prompt_tokens_total, end.prompt_tokens_total
    if not before.known or not after.known:
        return
    ours = sum(f.prompt_tokens for one in results for f in (*one.flights, *one.probes))
    others = after.value - before.value - ours
    if others > ours * (_COUNTING_SLACK - 1.0):
        raise StartError(
            f"the engine computed {others:.0f} prompt tokens of others meanwhile: calibration "
            "needs it without other traffic"
        )
