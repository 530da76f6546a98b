"""How well bytes by class estimate tokens: fits the filter's coefficients to a real tokenizer.

    pip install mistral-common numpy
    python -m tests.benchmark.token_estimate english=DIR chinese=DIR code=DIR json=DIR

Each argument names a kind of text and a file or directory of UTF-8 texts of that kind. Texts are
cut into pieces as long as prompts are; every other text is fitted to, the rest is judged. The fit
minimises the mean absolute relative error, every kind counting the same. Printed: tokens per byte
of each class, and the mean absolute error of each kind in percent.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np

PIECE_CHARACTERS = (600, 2_000, 5_000)
# A long text would otherwise decide alone.
MAX_PIECES_PER_TEXT = 12
ITERATIONS = 50
CLASSES = ("letters", "digits", "punctuation", "blank", "cjk", "other")


def class_counts(text: str) -> list[int]:
    """Bytes by class, in the order of CLASSES; as filter/core/src/profile/classes.rs counts."""
    counts: Counter[str] = Counter()
    for character, times in Counter(text).items():
        counts[class_of(character)] += len(character.encode()) * times
    return [counts[name] for name in CLASSES]


def class_of(character: str) -> str:
    if "\u3000" <= character <= "\uffff":
        return "cjk"
    if character > "\x7f":
        return "other"
    if character.isalpha():
        return "letters"
    if character.isdigit():
        return "digits"
    return "blank" if character <= " " else "punctuation"


@dataclass(frozen=True)
class Piece:
    kind: str
    judged: bool
    counts: list[int]
    tokens: int


def pieces(kind: str, paths: list[Path], count_tokens) -> list[Piece]:
    found = []
    for index, path in enumerate(paths):
        text = path.read_text(encoding="utf-8", errors="ignore")
        length = PIECE_CHARACTERS[index % len(PIECE_CHARACTERS)]
        for start in range(0, min(len(text), length * MAX_PIECES_PER_TEXT), length):
            piece = text[start : start + length]
            if len(piece) >= PIECE_CHARACTERS[0] // 2:
                judged = index % 2 == 1
                found.append(Piece(kind, judged, class_counts(piece), count_tokens(piece)))
    return found


def fit(fitted: list[Piece]) -> np.ndarray:
    """Tokens per byte of each class, none below 0, by iteratively reweighted least squares."""
    kinds = Counter(piece.kind for piece in fitted)
    shares = np.array([1 / kinds[piece.kind] for piece in fitted])
    tokens = np.array([piece.tokens for piece in fitted])
    rates = np.array([piece.counts for piece in fitted]) / tokens[:, None]
    coefficients = np.zeros(len(CLASSES))
    used = list(range(len(CLASSES)))
    for _ in range(ITERATIONS):
        errors = np.abs(rates @ coefficients - 1)
        weights = np.sqrt(shares / np.maximum(errors, 0.01))
        found, *_ = np.linalg.lstsq(rates[:, used] * weights[:, None], weights, rcond=None)
        used = [place for place, value in zip(used, found, strict=True) if value >= 0]
        coefficients = np.zeros(len(CLASSES))
        coefficients[used] = found[found >= 0]
    return coefficients


def relative_errors(judged: list[Piece], coefficients: np.ndarray) -> np.ndarray:
    tokens = np.array([piece.tokens for piece in judged])
    return np.array([piece.counts for piece in judged]) @ coefficients / tokens - 1


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("texts", nargs="+", metavar="KIND=PATH")
    arguments = parser.parse_args()
    try:
        from mistral_common.tokens.tokenizers.mistral import MistralTokenizer
    except ImportError:
        sys.exit("mistral-common is not installed: pip install mistral-common")
    tekken = MistralTokenizer.v3(is_tekken=True).instruct_tokenizer.tokenizer

    found: list[Piece] = []
    for argument in arguments.texts:
        kind, _, path = argument.partition("=")
        root = Path(path)
        files = (
            [root] if root.is_file() else sorted(file for file in root.rglob("*") if file.is_file())
        )
        if not files:
            parser.error(f"{argument}: no such file, or nothing in it")
        found += pieces(kind, files, lambda text: len(tekken.encode(text, bos=False, eos=False)))
    coefficients = fit([piece for piece in found if not piece.judged])
    for name, value in zip(CLASSES, coefficients, strict=True):
        print(f"{name:12} {value:.3f}")
    for kind in dict.fromkeys(piece.kind for piece in found):
        judged = [piece for piece in found if piece.judged and piece.kind == kind]
        errors = 100 * relative_errors(judged, coefficients)
        print(
            f"{kind:12} mean |error| {np.abs(errors).mean():4.1f} %  bias {errors.mean():+5.1f} %  "
            f"95 % of them below {np.percentile(np.abs(errors), 95):4.1f} %  "
            f"({len(judged)} pieces)"
        )


if __name__ == "__main__":
    main()
