"""Expected answers: means that follow, bounded memory, and merging that counts nothing twice."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from isocost.observe.batch import Answer
from isocost.observe.history import (
    BUCKETS,
    MOST_MODELS,
    History,
    Sums,
    mean_output_tokens,
    rounded,
    user_bytes,
)


def told(*answers: Answer) -> Sums:
    history = History()
    history.add(answers)
    return history.known()


def test_a_users_mean_is_a_byte_within_five_per_cent() -> None:
    for tokens in (1, 7, 100, 3_000, 50_000):
        data = user_bytes(told(Answer(12, "m", tokens)))
        assert len(data) == BUCKETS
        assert data.count(0) == BUCKETS - 1
        assert 2 ** ((data[11] - 1) / 16) == pytest.approx(tokens, rel=0.05)


def test_nobody_known_is_empty_and_no_user_counts_for_the_model_only() -> None:
    assert user_bytes(Sums()) == b""
    assert mean_output_tokens(Sums()) is None
    known = told(Answer(0, "m", 100), Answer(0, "m", 300))
    assert user_bytes(known) == b""
    assert known.models == {"m": (2.0, 400.0)}
    assert mean_output_tokens(known) == 200.0


def test_a_mean_follows_a_user_who_changes() -> None:
    history = History()
    for tokens in [100] * 1000 + [1000] * 60:
        history.add([Answer(1, "m", tokens)])
        history.known()
    known = history.known()
    assert known.user_tokens[0] / known.user_count[0] > 700


def test_the_memory_is_bounded_whatever_comes() -> None:
    history = History()
    for number in range(3 * MOST_MODELS):
        history.add([Answer(number % BUCKETS + 1, f"m{number}", 10)])
    assert len(history.known().models) == MOST_MODELS


def test_small_changes_are_no_news() -> None:
    assert rounded(99.0) == rounded(100.0) != rounded(110.0)


answers = st.lists(
    st.builds(Answer, st.integers(0, 5), st.sampled_from(["a", "b"]), st.integers(0, 1000)),
    max_size=8,
)


@given(answers, answers)
def test_two_that_share_know_what_one_that_heard_all_knows(
    first: list[Answer], second: list[Answer]
) -> None:
    one, two, alone = History(), History(), History()
    one.add(first)
    two.add(second)
    alone.add(first + second)
    stored = Sums()
    for history in (one, two, one, two):
        stored = stored.plus(history.take_unshared())
        history.shared(stored)
    for history in (one, two):
        assert history.known().models == alone.known().models
        assert np.allclose(history.known().user_tokens, alone.known().user_tokens)


def test_what_could_not_be_shared_is_shared_later_and_known_meanwhile() -> None:
    history = History()
    history.add([Answer(1, "m", 100)])
    taken = history.take_unshared()
    history.add([Answer(1, "m", 200)])
    history.put_back(taken)
    assert history.known().models == {"m": (2.0, 300.0)}
    assert history.take_unshared().models == {"m": (2.0, 300.0)}
