"""The fake engine, driven in virtual time as the measurements of tests/data/measured-speeds were.

``python -m tests.benchmark.calibration`` writes the tables of docs/fake-node.md anew.
"""

from __future__ import annotations

import csv
import random
import statistics
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from isocost.fake.engine import Engine
from isocost.fake.hardware import Hardware
from isocost.fake.kv_cache import BLOCK_TOKENS
from isocost.fake.models import model_named
from isocost.fake.roofline import hidden_s, linear_step_s, linear_token_s
from isocost.fake.sequence import Progress, Prompt

ROOT = Path(__file__).parents[2]
MEASURED = ROOT / "tests" / "data" / "measured-speeds"
PAGE = ROOT / "docs" / "fake-node.md"

ONE, SOME, SATURATED = "one request", "between", "saturated"
#: vLLM's default; the measurement of Llama-3.1-8B ran with the other.
MAX_NUM_SEQS = 256
SWEEP_MAX_NUM_SEQS = 128
SWEEP_STAGE_S = 60.0
#: 44 workers of the load generator with 10 requests each: later ones are sent late.
SWEEP_IN_FLIGHT = 440
#: Llama2-70B on two cards leaves 30,000 tokens for the KV cache: 64 sequences of 640 do not fit.
#: The rows give less than a sixth of the prompt time of 32 sequences.
EXCLUDED = {("H100", "2", "64"), ("A100", "2", "64")}
QWEN2 = {
    "Qwen2-7B-Instruct": "qwen2.5-7b",
    "Qwen2.5-32B": "qwen2.5-32b",
    "Qwen2-72B": "qwen2.5-72b",
}


@dataclass(frozen=True, slots=True)
class Pair:
    measured_ms: float
    modelled_ms: float

    @property
    def error(self) -> float:
        return self.modelled_ms / self.measured_ms - 1


@dataclass(frozen=True, slots=True)
class Row:
    """One measured point. None: the source has no figure that can be compared."""

    setting: str
    load: str
    state: str
    ttft: Pair | None
    tpot: Pair | None

    def errors(self) -> list[float]:
        return [pair.error for pair in (self.ttft, self.tpot) if pair is not None]


@dataclass(frozen=True, slots=True)
class Times:
    """When one request was sent, had its first token, and its last."""

    sent_s: float
    first_s: float
    last_s: float

    @property
    def ttft_s(self) -> float:
        return self.first_s - self.sent_s

    def tpot_s(self, output_tokens: int) -> float:
        return (self.last_s - self.first_s) / (output_tokens - 1)


class _Clients:
    """Those who wait for an engine, and what they saw."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.done: list[Times] = []
        self._sent: dict[int, float] = {}
        self._first: dict[int, float] = {}

    @property
    def in_flight(self) -> int:
        return len(self._sent)

    def send(self, at_s: float, prompt: Prompt, output_tokens: int) -> None:
        self._sent[self.engine.submit(at_s, prompt, (1, output_tokens)).number] = at_s

    def advance(self, now_s: float) -> None:
        for progress in self.engine.advance(now_s):
            self._see(progress)

    def drain(self) -> list[Times]:
        while (wake_s := self.engine.next_wake_s()) is not None:
            self.advance(wake_s)
        return self.done

    def _see(self, progress: Progress) -> None:
        number = progress.sequence.number
        if progress.finished:
            first_s = self._first.pop(number)
            self.done.append(Times(self._sent.pop(number), first_s, progress.at_s))
        else:
            self._first[number] = progress.at_s


def burst(engine: Engine, requests: int, prompt_tokens: int, output_tokens: int) -> list[Times]:
    """All sent at once, to an engine that has never seen the prompts; in the order of their end."""
    clients = _Clients(engine)
    for _ in range(requests):
        clients.send(0.0, Prompt(prompt_tokens), output_tokens)
    return clients.drain()


def open_loop(
    engine: Engine,
    rate_per_s: float,
    prompt: Callable[[random.Random], Prompt],
    output_tokens: int,
) -> list[Times]:
    """Poisson arrivals of one stage of the sweep, held back while too many are in flight."""
    choose = random.Random(1)
    clients = _Clients(engine)
    arrival_s = choose.expovariate(rate_per_s)
    held = 0
    while arrival_s < SWEEP_STAGE_S or held:
        wake_s = engine.next_wake_s()
        if wake_s is None or arrival_s < min(wake_s, SWEEP_STAGE_S):
            now_s = arrival_s
            held += 1
            arrival_s += choose.expovariate(rate_per_s)
        else:
            now_s = wake_s
        clients.advance(now_s)
        while held and clients.in_flight < SWEEP_IN_FLIGHT:
            clients.send(now_s, prompt(choose), output_tokens)
            held -= 1
    return clients.drain()


def splitwise_rows() -> Iterator[Row]:
    """A whole batch of prompts; then its decode step, seen by the last that was prefilled."""
    for row in _rows("splitwise-llama2-70b.csv"):
        if (row["gpu_kind"], row["gpus"], row["batch"]) in EXCLUDED:
            continue
        batch, gpus, output = int(row["batch"]), int(row["gpus"]), 128
        hardware = Hardware(row["gpu_kind"], gpus, model_named("llama2-70b"))
        engine = Engine(hardware.speed, hardware.kv_blocks, MAX_NUM_SEQS)
        last = max(burst(engine, batch, int(row["prompt_tokens"]), output), key=lambda t: t.last_s)
        yield Row(
            setting=f"llama2-70b, {gpus} x {hardware.kind}",
            load=f"{batch} x {row['prompt_tokens']} tokens",
            state=ONE if batch == 1 else SATURATED if batch == (32 if gpus == 2 else 64) else SOME,
            ttft=_pair(row["prompt_ms"], last.ttft_s),
            tpot=_pair(row["token_ms"], last.tpot_s(output)),
        )


def sweep_rows() -> Iterator[Row]:
    """Medians of a stage, time per output token as the source has to be read."""
    hardware = Hardware("H100", 1, model_named("llama-3.1-8b"))
    for row in _rows("inference-perf-llama-3.1-8b-h100.csv"):
        cached = row["setup"] != "vllm"
        rate, output = float(row["rate_per_s"]), round(float(row["output_tokens"]))
        tokens = round(float(row["prompt_tokens"]))
        engine = Engine(hardware.speed, hardware.kv_blocks, SWEEP_MAX_NUM_SEQS)
        prompt = _shared_prefixes(tokens) if cached else _fresh(tokens)
        done = open_loop(engine, rate, prompt, output)
        ttft_s = statistics.median(times.ttft_s for times in done)
        latency_s = statistics.median(times.last_s - times.sent_s for times in done)
        saturated = rate > 1.1 * float(row["requests_per_s"])
        yield Row(
            setting="llama-3.1-8b, 1 x H100" + (", prefix caching" if cached else ""),
            load=f"{rate:g} requests/s",
            state=SATURATED if saturated else ONE if row["stage"] == "0" else SOME,
            ttft=_pair(row["ttft_p50_ms"], ttft_s),
            tpot=_pair(row["tpot_ms"], (latency_s - ttft_s) / (output - 1)),
        )


def vllm_a100_rows() -> Iterator[Row]:
    """Bursts. The first token counts only where most of its time is the wait for a place: the
    other figures contain prompts cached by the run before.
    """
    for row in _rows("vllm-a100.csv"):
        model, gpus = model_named(QWEN2[row["model"]]), int(row["gpus"])
        requests, prompt = int(row["requests_at_once"]), int(row["input_tokens"])
        output = int(row["output_tokens"])
        pool_bytes = float(row["kv_gib_per_gpu"]) * 2**30 * gpus
        blocks = int(pool_bytes / (model.kv_bytes_per_token * BLOCK_TOKENS))
        engine = Engine(Hardware("A100", gpus, model).speed, blocks, MAX_NUM_SEQS)
        done = burst(engine, requests, prompt, output)
        saturated = requests > min(MAX_NUM_SEQS, blocks * BLOCK_TOKENS // prompt)
        tpot_s = statistics.mean(times.tpot_s(output) for times in done)
        ttft_s = statistics.mean(times.ttft_s for times in done)
        yield Row(
            setting=f"{model.name}, {gpus} x A100, {row['kv_gib_per_gpu']} GiB of KV",
            load=f"{requests} x {prompt} tokens",
            state=SATURATED if saturated else ONE if requests == 1 else SOME,
            ttft=_pair(row["mean_ttft_ms"], ttft_s) if saturated else None,
            tpot=_pair(row["mean_tpot_ms"], tpot_s),
        )


def vidur_rows() -> Iterator[Row]:
    """The roofline's linear operators: 2,048 tokens under TTFT, one under TPOT."""
    times: dict[tuple[str, str, int], dict[int, float]] = {}
    for row in _rows("vidur-linear-operators.csv"):
        key = row["gpu_kind"], row["model"], int(row["gpus"])
        times.setdefault(key, {})[int(row["tokens"])] = float(row["linear_ms"])
    for (kind, name, gpus), measured in times.items():
        model = model_named(name)
        # The table has no output head.
        head = model.vocabulary * model.hidden_size
        model = replace(model, parameters=model.parameters - head)
        step_s = linear_step_s(kind, model, gpus)
        work_s = 2048 * linear_token_s(kind, model, gpus)
        yield Row(
            setting=f"{name}, {gpus} x {kind}",
            load="linear operators",
            state=SOME,
            ttft=_pair(measured[2048], step_s + work_s - hidden_s(kind, model, gpus)),
            tpot=_pair(measured[1], step_s),
        )


def summary(rows: list[Row]) -> str:
    """The worst error of each setting and state."""
    lines = [
        "| setting | load | points | worst TTFT | worst TPOT |",
        "| --- | --- | --- | --- | --- |",
    ]
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.setting, row.state), []).append(row)
    for (setting, state), members in groups.items():
        ttft = _worst([row.ttft for row in members])
        tpot = _worst([row.tpot for row in members])
        lines.append(f"| {setting} | {state} | {len(members)} | {ttft} | {tpot} |")
    return "\n".join(lines)


def table(rows: list[Row], ttft: str = "TTFT", tpot: str = "TPOT") -> str:
    """Every point: measured and modelled ms, and the error."""
    lines = [f"| setting | load | {ttft} ms | modelled | error | {tpot} ms | modelled | error |"]
    lines.append("| --- | --- | --- | --- | --- | --- | --- | --- |")
    lines += [
        f"| {row.setting} | {row.load} | {_cells(row.ttft)} | {_cells(row.tpot)} |" for row in rows
    ]
    return "\n".join(lines)


def page_with(text: str, tables: Mapping[str, str]) -> str:
    """The page with what stands between the markers of each table replaced."""
    for name, content in tables.items():
        before, begin, rest = text.partition(f"<!-- {name} -->\n")
        _, end, after = rest.partition(f"<!-- end of {name} -->")
        if not end:
            raise ValueError(f"{PAGE} has no place for {name}")
        text = f"{before}{begin}{content}\n{end}{after}"
    return text


def tables(engine_rows: list[Row], linear_rows: list[Row]) -> Mapping[str, str]:
    return {
        "worst errors": summary(engine_rows),
        "all errors": table(engine_rows),
        "linear operators": table(linear_rows, "2,048 tokens", "1 token"),
    }


def engine_rows() -> list[Row]:
    return [*splitwise_rows(), *sweep_rows(), *vllm_a100_rows()]


def _rows(name: str) -> Iterator[dict[str, str]]:
    with (MEASURED / name).open(newline="") as file:
        yield from csv.DictReader(file)


def _pair(measured_ms: str | float, modelled_s: float) -> Pair:
    return Pair(float(measured_ms), modelled_s * 1e3)


def _fresh(tokens: int) -> Callable[[random.Random], Prompt]:
    return lambda _: Prompt(tokens)


def _shared_prefixes(tokens: int) -> Callable[[random.Random], Prompt]:
    """128 tokens of one of 10 system prompts, and 64 of one of its 10 users."""

    def choose(random_source: random.Random) -> Prompt:
        system, user = random_source.randrange(10), random_source.randrange(10)
        shared = [system * 100 + piece for piece in range(8)]
        own = [10_000 + (system * 10 + user) * 100 + piece for piece in range(4)]
        return Prompt(tokens, (*shared, *own))

    return choose


def _worst(pairs: list[Pair | None]) -> str:
    errors = [pair.error for pair in pairs if pair is not None]
    return f"{max(errors, key=abs):+.1%}" if errors else "-"


def _cells(pair: Pair | None) -> str:
    if pair is None:
        return "- | - | -"
    return f"{pair.measured_ms:,.1f} | {pair.modelled_ms:,.1f} | {pair.error:+.1%}"


def main() -> None:
    PAGE.write_text(page_with(PAGE.read_text(), tables(engine_rows(), list(vidur_rows()))))


if __name__ == "__main__":
    main()
