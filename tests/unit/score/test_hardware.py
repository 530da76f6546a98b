"""Each row of the health table holds from its threshold on, while what it looks at is known."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isocost.model import (
    ABSENT,
    UNSUPPORTED,
    GpuSample,
    HealthSignals,
    Signal,
    SignalState,
    Xid,
    measured,
)
from isocost.score.hardware import Finding, gpu_findings, suspicions, unknown_rows
from isocost.score.health_table import LEAST, ROWS, STALE_S, Action, SignalRow, XidRow, xid_row
from tests.unit.fleet_builder import node
from tests.unit.hardware_samples import TAKEN_S, WELL, gpu, health, stale, with_gpus, xids


def found(of: GpuSample, age_s: float = 0.0) -> list[Finding]:
    return list(gpu_findings(of, suspicions(of.health), TAKEN_S, age_s))


def names(of: GpuSample, age_s: float = 0.0) -> list[str]:
    return [finding.row.name for finding in found(of, age_s)]


#: A reading for which the row just holds, and one for which it just does not.
EDGES = {
    "gpu_lost": (gpu(lost=True), gpu()),
    "row_remap_failed": (gpu(health(row_remap_failed=1)), gpu(health(row_remap_failed=0))),
    "row_remap_pending": (gpu(health(row_remap_pending=1)), gpu(health(row_remap_pending=0))),
    "ecc_uncorrected": (gpu(health(ecc_uncorrected=1)), gpu(health(ecc_corrected=1e6))),
    "nvlinks_all_down": (gpu(links=0.0), gpu(links=1.0)),
    "nvlinks_down": (gpu(links=17 / 18), gpu(links=1.0)),
    "nvlink_crc": (
        gpu(health(nvlink_crc_errors_per_minute=6000)),
        gpu(health(nvlink_crc_errors_per_minute=5999)),
    ),
    "nvlink_recoveries": (
        gpu(health(nvlink_recoveries_per_minute=1)),
        gpu(health(nvlink_recoveries_per_minute=0)),
    ),
    "pcie_width": (gpu(health(pcie_width=8)), gpu(health(pcie_width=8, pcie_width_max=8))),
    "pcie_generation": (
        gpu(health(pcie_generation=4), busy=0.01),
        gpu(health(pcie_generation=1), busy=0.0),
    ),
    "pcie_replays": (
        gpu(health(pcie_replays_per_minute=9)),
        gpu(health(pcie_replays_per_minute=8)),
    ),
    "clocks_slowed": (
        gpu(health(clocks_event_reasons=0x40)),
        gpu(health(clocks_event_reasons=0x1 | 0x2 | 0x4 | 0x10 | 0x100)),
    ),
    "xid_fatal": (gpu(xids(48, age_s=600.0)), gpu(xids(48, age_s=600.1))),
    "xid_watched": (gpu(xids(74, age_s=120.0)), gpu(xids(74, age_s=120.1))),
    "xid_noted": (gpu(xids(63, age_s=600.0)), gpu(xids(63, age_s=600.1))),
    "xid_application": (gpu(xids(31, age_s=600.0)), gpu(xids(31, age_s=600.1))),
    "xid_other": (gpu(xids(999, age_s=600.0)), gpu(xids(999, age_s=600.1))),
}


@pytest.mark.parametrize("name", EDGES)
def test_a_row_holds_from_its_threshold_on(name: str) -> None:
    bad, well = EDGES[name]
    assert names(bad) == [name]
    assert names(well) == []


def test_every_row_about_gpus_is_tested_at_its_threshold() -> None:
    assert {row.name for row in ROWS} - {"cuda_handles"} == set(EDGES)


@pytest.mark.parametrize("reason", [0x8, 0x20, 0x40, 0x80])
def test_heat_power_brake_and_hardware_slow_the_clocks(reason: int) -> None:
    (finding,) = found(gpu(health(clocks_event_reasons=reason | 0x4)))
    assert (finding.row.name, finding.value) == ("clocks_slowed", reason | 0x4)


@pytest.mark.parametrize(
    ("action", "numbers"),
    [
        (Action.EJECT, [46, 48, 62, 64, 79, 95, 109, 110, 119, 120, 136, 140, 143, 158]),
        (Action.LOWER, [61, 74, 94, 144, 145, 146, 147, 148, 149, 150, 155, 156]),
        (Action.IGNORE, [8, 11, 13, 31, 43, 45, 63, 68, 69, 92, 121, 137, 154, 7, 151, 1000]),
    ],
)
def test_an_xid_does_what_the_catalogue_says(action: Action, numbers: list[int]) -> None:
    assert {xid_row(number).action for number in numbers} == {action}


def test_no_xid_is_in_two_rows() -> None:
    numbers = [n for row in ROWS if isinstance(row, XidRow) for n in row.numbers]
    assert len(numbers) == len(set(numbers))


def test_every_xid_of_a_gpu_is_found() -> None:
    assert [(finding.row.name, finding.value) for finding in found(gpu(xids(62, 45)))] == [
        ("xid_fatal", 62.0),
        ("xid_application", 45.0),
    ]


def test_the_age_of_an_xid_goes_on_while_its_agent_is_silent() -> None:
    of = gpu(xids(79, age_s=595.0))
    assert names(of, age_s=5.0) == ["xid_fatal"]
    assert names(of, age_s=5.1) == []


def test_an_xid_of_a_time_that_has_not_come_is_none() -> None:
    assert names(gpu(xids(79, age_s=-1.0))) == ["xid_fatal"]
    assert names(gpu(xids(79, age_s=-1.1))) == []


SIGNAL_EDGES = [row.name for row in ROWS if isinstance(row, SignalRow)]


@pytest.mark.parametrize("name", SIGNAL_EDGES)
def test_a_stale_reading_counts_for_half_a_minute(name: str) -> None:
    bad = EDGES[name][0]
    assert names(replace(bad, health_age_s=STALE_S)) == [name]
    assert names(replace(bad, health_age_s=STALE_S - 5.0), age_s=5.0) == [name]
    assert names(replace(bad, health_age_s=STALE_S - 5.0), age_s=5.1) == []


def test_the_age_that_a_signal_had_when_it_was_read_counts() -> None:
    of = gpu(health(row_remap_pending=stale(1, 20.0)), health_age_s=5.0)
    assert names(of, age_s=5.0) == ["row_remap_pending"]
    assert names(of, age_s=5.1) == []


@pytest.mark.parametrize("name", ["gpu_lost", "nvlinks_down", "nvlinks_all_down"])
def test_what_is_not_of_the_health_counts_for_half_a_minute_too(name: str) -> None:
    assert names(EDGES[name][0], age_s=STALE_S) == [name]
    assert names(EDGES[name][0], age_s=STALE_S + 0.1) == []
    assert names(gpu(links=stale(0.5, STALE_S - 1.0)), age_s=1.1) == []


@pytest.mark.parametrize("unknown", [ABSENT, UNSUPPORTED])
def test_what_is_not_known_says_nothing(unknown: Signal) -> None:
    nothing = HealthSignals(
        **{name: unknown for name in HealthSignals.__dataclass_fields__ if name != "xids"}
    )
    assert names(gpu(nothing, links=unknown, busy=unknown)) == []
    assert names(gpu(None, links=unknown, busy=unknown)) == []
    for field in ("pcie_width", "pcie_width_max"):
        assert names(gpu(replace(health(pcie_width=8), **{field: unknown}))) == []


@pytest.mark.parametrize("busy", [ABSENT, UNSUPPORTED, stale(0.9, 0.1)])
def test_a_low_pcie_generation_means_nothing_while_nobody_knows_whether_the_gpu_works(
    busy: Signal,
) -> None:
    assert names(gpu(health(pcie_generation=1), busy=busy)) == []


def test_one_unknown_signal_leaves_the_others_of_its_gpu() -> None:
    of = gpu(health(ecc_uncorrected=ABSENT, row_remap_pending=1), links=ABSENT)
    assert names(of) == ["row_remap_pending"]


def test_what_is_not_known_is_named_and_what_the_hardware_lacks_is_not() -> None:
    whole = node()
    assert unknown_rows(with_gpus(whole, gpu()), 0.0) == []
    missing = gpu(health(ecc_uncorrected=ABSENT, pcie_width_max=ABSENT), links=ABSENT)
    assert unknown_rows(with_gpus(whole, gpu(), missing), 0.0) == [
        "ecc_uncorrected",
        "nvlinks_down",
        "pcie_width",
    ]
    lacking = gpu(health(ecc_uncorrected=UNSUPPORTED), links=UNSUPPORTED)
    assert unknown_rows(with_gpus(whole, lacking), 0.0) == []
    assert unknown_rows(with_gpus(whole, gpu(None)), 0.0) == sorted(SIGNAL_EDGES)
    assert "pcie_width" in unknown_rows(with_gpus(whole, gpu()), STALE_S + 0.1)


def worst(of: GpuSample, age_s: float = 0.0) -> tuple[Action, float]:
    """The strongest action and the smallest factor."""
    findings = found(of, age_s)
    return (
        max((finding.row.action for finding in findings), default=Action.IGNORE),
        min((finding.factor for finding in findings), default=1.0),
    )


values = st.floats(0.0, 1e12) | st.integers(0, 512).map(float) | st.floats(0.0, 2.0)
signals = st.builds(Signal, st.sampled_from(SignalState), values, st.floats(0.0, 60.0))
healths = st.builds(
    HealthSignals,
    **{name: signals for name in HealthSignals.__dataclass_fields__ if name != "xids"},
    xids=st.lists(
        st.builds(Xid, st.integers(1, 200), st.just(1), st.floats(0.0, 2 * TAKEN_S)), max_size=3
    ).map(tuple),
)
gpus = st.builds(
    gpu,
    st.none() | healths,
    links=signals,
    busy=signals,
    lost=st.booleans(),
    health_age_s=st.floats(0.0, 60.0),
)


@given(gpus, st.floats(0.0, 700.0))
def test_factors_are_parts_of_a_share(of: GpuSample, age_s: float) -> None:
    for finding in found(of, age_s):
        assert 0.0 < finding.factor <= 1.0
        assert (finding.factor == 1.0) <= (finding.row.action <= Action.LOWER)


@given(gpus, st.floats(0.0, 100.0), st.floats(0.0, 1000.0))
def test_age_alone_never_makes_it_worse(of: GpuSample, age_s: float, later_s: float) -> None:
    action, factor = worst(of, age_s)
    older_action, older_factor = worst(of, age_s + later_s)
    assert older_action <= action
    assert older_factor >= factor


@given(gpus, st.sampled_from(sorted(EDGES)))
def test_one_more_fault_never_makes_it_better(of: GpuSample, name: str) -> None:
    bad = EDGES[name][0]
    more = replace(of.health or WELL)
    if name == "gpu_lost":
        worse = replace(of, lost=True)
    elif name.startswith("nvlinks"):
        links = measured(min(of.nvlink_active_fraction.value, bad.nvlink_active_fraction.value))
        worse = replace(of, nvlink_active_fraction=links)
    elif name.startswith("xid"):
        assert bad.health is not None
        worse = replace(of, health=replace(more, xids=more.xids + bad.health.xids))
    else:
        assert bad.health is not None
        changed = {
            field: getattr(bad.health, field)
            for field in HealthSignals.__dataclass_fields__
            if field != "xids" and getattr(bad.health, field) != getattr(WELL, field)
        }
        changed |= {f"{field}_max": measured(16) for field in changed if field.startswith("pcie_w")}
        changed |= {f"{field}_max": measured(5) for field in changed if field.startswith("pcie_g")}
        # Every other reason that the clocks have goes on.
        if "clocks_event_reasons" in changed and more.clocks_event_reasons.known:
            reasons = int(more.clocks_event_reasons.value) | 0x40
            changed["clocks_event_reasons"] = replace(
                more.clocks_event_reasons, value=float(reasons)
            )
        worse = replace(of, health=replace(more, **changed))
    action, factor = worst(of)
    worse_action, worse_factor = worst(worse)
    assert worse_action >= action
    assert worse_factor <= factor


@given(gpus, st.sampled_from([ABSENT, UNSUPPORTED]))
def test_what_is_unknown_is_taken_as_well_and_never_as_better(
    of: GpuSample, unknown: Signal
) -> None:
    known = replace(of, nvlink_active_fraction=measured(1.0), lost=False, health=WELL)
    blind = replace(known, nvlink_active_fraction=unknown, health=None)
    assert worst(blind) == worst(known) == (Action.IGNORE, 1.0)


def test_the_share_of_links_that_are_up_is_the_factor_and_never_nothing() -> None:
    assert [finding.factor for finding in found(gpu(links=0.75))] == [0.75]
    assert [finding.factor for finding in found(gpu(links=0.01))] == [LEAST]
    assert [finding.factor for finding in found(gpu(links=0.0))] == [LEAST]
