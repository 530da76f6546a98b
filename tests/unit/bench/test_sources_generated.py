"""Generated arrivals and lengths: their means, burstiness and mixes, with fixed seeds."""

import numpy as np
import pytest

from isocost.bench.load import load
from isocost.bench.sources import abc_mix, bursts, servegen
from isocost.bench.sources.lengths import MAX_DRAWN_TOKENS, Lengths
from isocost.bench.sources.renewal import Law, arrivals_s
from isocost.bench.trace import TraceRequest
from isocost.errors import StartError

HEADER = (
    "client,mean_rate_per_s,rate_weighted_iat_cv,usual_arrival_model,"
    "input_mean,input_p99,output_mean,output_p99"
)


def clients(*rows: str) -> tuple[servegen.Client, ...]:
    return servegen.read_clients([HEADER, *rows], "clients.csv")


@pytest.mark.parametrize("law", Law)
@pytest.mark.parametrize("cv", [0.3, 1.0, 3.0])
def test_gaps_have_the_wanted_mean_and_variation(law: Law, cv: float) -> None:
    times = arrivals_s(law, 50.0, cv, 10_000.0, np.random.default_rng(1))
    gaps = np.diff(times)
    assert len(times) == pytest.approx(500_000, rel=0.02)
    assert gaps.std() / gaps.mean() == pytest.approx(cv, rel=0.04)
    assert times[-1] < 10_000
    assert (gaps >= 0).all()


@pytest.mark.parametrize("law", Law)
def test_a_short_and_bursty_load_does_not_begin_with_a_burst(law: Law) -> None:
    rng = np.random.default_rng(2)
    # A process that began with an arrival would give 12 in the mean: (CV^2 - 1) / 2 more.
    counts = [len(arrivals_s(law, 2.0, 4.0, 2.0, rng)) for _ in range(20_000)]
    assert np.mean(counts) == pytest.approx(4.0, rel=0.04)


def test_a_lognormal_has_the_mean_and_the_p99_it_is_fitted_to() -> None:
    drawn = Lengths.fitted(mean=1144.5, p99=6000).draw(400_000, np.random.default_rng(3))
    assert drawn.mean() == pytest.approx(1144.5, rel=0.01)
    assert np.percentile(drawn, 99) == pytest.approx(6000, rel=0.02)


def test_a_p99_beyond_any_lognormal_and_one_below_the_mean_keep_the_mean() -> None:
    assert Lengths.fitted(mean=10, p99=1000).sigma == pytest.approx(2.326, abs=1e-3)
    assert set(Lengths.fitted(mean=7, p99=5).draw(100, np.random.default_rng(4)).tolist()) == {7}


def test_lengths_are_at_least_one_token_and_at_most_a_models_context() -> None:
    drawn = Lengths.around(mean=100, sigma=4.0).draw(100_000, np.random.default_rng(5))
    assert (drawn.min(), drawn.max()) == (1, MAX_DRAWN_TOKENS)


def test_the_abc_mix_has_its_shares_its_mean_lengths_and_poisson_arrivals() -> None:
    answers = (TraceRequest(0, 1, 100), TraceRequest(0, 1, 300))
    requests = abc_mix.generate(answers, 300.0, 600.0, seed=1)
    assert len(requests) == pytest.approx(180_000, rel=0.02)
    for kind, share, mean in (("A", 0.65, 327), ("B", 0.30, 4218), ("C", 0.05, 12842)):
        own = [request.input_tokens for request in requests if request.kind == kind]
        assert len(own) / len(requests) == pytest.approx(share, rel=0.04)
        assert np.mean(own) == pytest.approx(mean, rel=0.02)
    gaps = np.diff([request.arrival_s for request in requests])
    assert gaps.std() / gaps.mean() == pytest.approx(1.0, rel=0.02)
    assert np.mean([request.output_tokens for request in requests]) == pytest.approx(200, rel=0.02)


def test_bursts_have_the_wanted_variation_and_real_pairs_of_lengths() -> None:
    pairs = (TraceRequest(0, 10, 1), TraceRequest(0, 20, 2))
    requests = bursts.generate(pairs, 100.0, 4.0, 5000.0, seed=1)
    gaps = np.diff([request.arrival_s for request in requests])
    assert gaps.std() / gaps.mean() == pytest.approx(4.0, rel=0.03)
    assert {(item.input_tokens, item.output_tokens) for item in requests} == {(10, 1), (20, 2)}


def test_the_name_burstgpt_takes_a_variation() -> None:
    def variation(source: str) -> float:
        gaps = np.diff([item.arrival_s for item in load(source, rate=100, duration_s=1000)])
        return float(gaps.std() / gaps.mean())

    assert variation("burstgpt") == pytest.approx(1.414, rel=0.03)
    assert variation("burstgpt:cv=4") == pytest.approx(4, rel=0.06)


def test_each_client_has_its_own_rate_variation_and_lengths() -> None:
    mix = clients("a,30,3,Gamma,100,300,50,200", "b,10,1,Weibull,2000,5000,10,20")
    requests = servegen.generate(mix, None, 4000.0, seed=1)
    for name, rate, cv, prompt, answer in (("a", 30, 3, 100, 50), ("b", 10, 1, 2000, 10)):
        own = [request for request in requests if request.user == name]
        gaps = np.diff([request.arrival_s for request in own])
        assert len(own) == pytest.approx(4000 * rate, rel=0.04)
        assert gaps.std() / gaps.mean() == pytest.approx(cv, rel=0.04)
        assert np.mean([item.input_tokens for item in own]) == pytest.approx(prompt, rel=0.02)
        assert np.mean([item.output_tokens for item in own]) == pytest.approx(answer, rel=0.02)
    assert [item.arrival_s for item in requests] == sorted(item.arrival_s for item in requests)


def test_a_wanted_rate_scales_all_clients_alike() -> None:
    mix = clients("a,30,1,Gamma,100,300,50,200", "b,10,1,Gamma,2000,5000,10,20")
    requests = servegen.generate(mix, 100.0, 1000.0, seed=1)
    assert len(requests) == pytest.approx(100_000, rel=0.02)
    assert sum(item.user == "a" for item in requests) / len(requests) == pytest.approx(
        0.75, rel=0.02
    )


def test_a_client_without_lengths_has_those_of_the_others_by_their_rates() -> None:
    mix = clients(
        "x,50,1,Gamma,,,50,200", "a,30,1,Gamma,100,100,50,50", "b,10,1,Gamma,900,900,10,10"
    )
    own = [item for item in servegen.generate(mix, None, 400.0, seed=1) if item.user == "x"]
    pairs = [(item.input_tokens, item.output_tokens) for item in own]
    assert set(pairs) == {(100, 50), (900, 10)}
    assert pairs.count((100, 50)) / len(pairs) == pytest.approx(0.75, rel=0.03)


def test_a_clients_requests_do_not_depend_on_the_clients_after_it() -> None:
    row = "a,30,3,Gamma,100,300,50,200"
    alone = servegen.generate(clients(row), None, 60.0, seed=1)
    together = servegen.generate(clients(row, "b,10,1,Gamma,20,50,10,20"), None, 60.0, seed=1)
    assert tuple(item for item in together if item.user == "a") == alone


def test_a_client_that_sends_nothing_may_lack_everything() -> None:
    assert [client.name for client in clients("z,0,0,,,,,", "a,1,1,Gamma,1,1,1,1")] == ["a"]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("a,-1,1,Gamma,1,1,1,1", "line 2: mean_rate_per_s: '-1' is not allowed; a number from 0"),
        ("a,1,-1,Gamma,1,1,1,1", "rate_weighted_iat_cv: '-1' is not allowed; a number from 0 to"),
        ("a,1,0,Gamma,1,1,1,1", "client 'a': its rate is 1, so it needs a rate_weighted_iat_cv"),
        ("a,1,1,Pareto,1,1,1,1", "usual_arrival_model: 'Pareto' is not al.*; Gamma or Weibull"),
        ("a,1,1,Gamma,0,1,1,1", "line 2: input_mean: '0' is not allowed; a number from 0.1"),
        ("a,1,1,,1,1,1,1", "client 'a': its rate is 1, .* and a usual_arrival_model"),
        ("a,1,1,Gamma,1,,1,1", "no client has a rate above 0 and all of its lengths"),
    ],
)
def test_a_bad_client_is_refused(row: str, message: str) -> None:
    with pytest.raises(StartError, match=message):
        clients(row)


def test_the_bundled_clients_are_skewed() -> None:
    users = [request.user for request in load("servegen", duration_s=120)]
    counts = sorted((users.count(user) for user in set(users)), reverse=True)
    assert len(users) == pytest.approx(195.8 * 120, rel=0.2)
    assert sum(counts[:5]) / len(users) == pytest.approx(0.43, abs=0.1)
