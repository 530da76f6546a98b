"""Open requests are exact: per node instance, over VMs that come, go and restart."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isocost.observe.batch import Batch, NodeObservation
from isocost.observe.inflight import ENVOY_MISSED_S, VM_GONE_S, InFlight


def batch(
    vm: int,
    sequence: int,
    open_by_node: dict[int, int],
    age_s_sum: float = 0.0,
    envoy: str = "edge-1",
) -> Batch:
    return Batch(
        envoy=envoy,
        incarnation=vm,
        sequence=sequence,
        nodes=tuple(
            NodeObservation(node_id, in_flight=count, open_age_s_sum=age_s_sum)
            for node_id, count in open_by_node.items()
        ),
    )


def counts(in_flight: InFlight, ids: list[int], now_s: float) -> list[int]:
    return in_flight.totals(ids, now_s)[0].tolist()


def test_counts_are_summed_over_vms_and_replaced_by_each_report() -> None:
    in_flight = InFlight()
    in_flight.apply(batch(1, 0, {7: 3, 8: 1}), 0.0)
    in_flight.apply(batch(2, 0, {7: 2}), 0.0)
    assert counts(in_flight, [7, 8, 9], 0.0) == [5, 1, 0]
    in_flight.apply(batch(1, 1, {7: 1}), 0.2)
    assert counts(in_flight, [7, 8], 0.2) == [3, 0]


def test_a_batch_that_arrives_twice_or_late_changes_nothing() -> None:
    in_flight = InFlight()
    in_flight.apply(batch(1, 5, {7: 3}), 0.0)
    assert not in_flight.apply(batch(1, 5, {7: 9}), 0.1)
    assert not in_flight.apply(batch(1, 4, {7: 9}), 0.1)
    assert counts(in_flight, [7], 0.1) == [3]


def test_a_vanished_vm_takes_its_counts_along() -> None:
    in_flight = InFlight()
    in_flight.apply(batch(1, 0, {7: 3}), 0.0)
    in_flight.apply(batch(2, 0, {7: 2}), 2.0)
    in_flight.expire(VM_GONE_S + 0.1)
    assert counts(in_flight, [7], VM_GONE_S) == [2]
    assert in_flight.envoys() == {"edge-1"}


def test_a_restarted_instance_has_its_own_count() -> None:
    in_flight = InFlight()
    in_flight.apply(batch(1, 0, {70: 5, 71: 3}), 0.0)
    in_flight.apply(batch(1, 1, {71: 3}), 0.2)
    assert counts(in_flight, [71], 0.2) == [3]


def test_open_ages_grow_between_reports() -> None:
    in_flight = InFlight()
    in_flight.apply(batch(1, 0, {7: 2}, age_s_sum=10.0), 100.0)
    assert in_flight.totals([7], 103.0)[1][0] == 16.0


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.dictionaries(st.integers(0, 5), st.integers(0, 50))),
        max_size=30,
    )
)
def test_the_total_is_the_sum_of_each_vms_last_report(
    reports: list[tuple[int, dict[int, int]]],
) -> None:
    in_flight, last = InFlight(), {}
    for sequence, (vm, open_by_node) in enumerate(reports):
        in_flight.apply(batch(vm, sequence, open_by_node), 0.0)
        last[vm] = open_by_node
    expected = [sum(report.get(node, 0) for report in last.values()) for node in range(6)]
    assert counts(in_flight, list(range(6)), 0.0) == expected


def test_counts_and_ages_stay_exact_over_many_reports() -> None:
    in_flight = InFlight()
    for sequence in range(20_000):
        now_s = 1e6 + sequence * 0.2
        in_flight.apply(batch(1, sequence, {7: 3}, age_s_sum=0.3), now_s)
    assert counts(in_flight, [7], now_s) == [3]
    assert abs(in_flight.totals([7], now_s)[1][0] - 0.3) < 0.005
    in_flight.apply(batch(1, 20_000, {}), now_s)
    assert in_flight.totals([7], now_s)[1][0] == 0.0


def test_a_late_end_never_hits_the_successor() -> None:
    in_flight = InFlight()
    old, new = 70, 71
    in_flight.apply(batch(1, 0, {old: 5}), 0.0)
    in_flight.apply(batch(1, 1, {old: 5, new: 3}), 0.2)
    assert counts(in_flight, [new], 0.2) == [3]
    in_flight.apply(batch(1, 2, {new: 3}), 0.4)
    assert counts(in_flight, [new], 0.4) == [3]


def known(in_flight: InFlight, ids: list[int]) -> list[bool]:
    return in_flight.known(ids).tolist()


def test_while_no_vm_speaks_nothing_is_known() -> None:
    in_flight = InFlight()
    assert known(in_flight, [7]) == [False]
    in_flight.apply(batch(1, 0, {}), 0.0)
    assert known(in_flight, [7]) == [True]
    in_flight.expire(VM_GONE_S + 0.1)
    assert known(in_flight, [7]) == [False]


def silent_edge(now_s: float) -> InFlight:
    """edge-1 fell silent with requests open on 7 while edge-2 speaks."""
    in_flight = InFlight()
    in_flight.apply(batch(1, 0, {7: 5}), 0.0)
    in_flight.apply(batch(1, 0, {8: 1}, envoy="edge-2"), now_s)
    in_flight.expire(now_s)
    return in_flight


def test_where_an_envoy_had_requests_when_it_fell_silent_the_count_is_not_known() -> None:
    in_flight = silent_edge(VM_GONE_S + 0.1)
    assert counts(in_flight, [7], VM_GONE_S + 0.1) == [0]
    assert known(in_flight, [7, 8]) == [False, True]


@pytest.mark.parametrize("vm", [1, 2])
def test_it_is_known_again_when_the_envoy_speaks(vm: int) -> None:
    in_flight = silent_edge(VM_GONE_S + 0.1)
    in_flight.apply(batch(vm, 9, {7: 4}), VM_GONE_S + 0.3)
    assert known(in_flight, [7, 8]) == [True, True]
    assert counts(in_flight, [7], VM_GONE_S + 0.3) == [4]


def test_an_envoy_that_never_returns_is_not_waited_for_without_end() -> None:
    in_flight = silent_edge(VM_GONE_S + 0.1)
    for seconds in range(1, int(ENVOY_MISSED_S) + 1):
        now_s = VM_GONE_S + 0.1 + seconds
        in_flight.apply(batch(1, seconds, {8: 1}, envoy="edge-2"), now_s)
        in_flight.expire(now_s)
        assert known(in_flight, [7]) == [False]
    in_flight.expire(now_s + 0.2)
    assert known(in_flight, [7]) == [True]


def work_batch(vm: int, sequence: int, work: dict[int, tuple[int, int]]) -> Batch:
    nodes = tuple(
        NodeObservation(node_id, in_flight=1, pending_tokens=pending, kv_tokens=kv)
        for node_id, (pending, kv) in work.items()
    )
    return Batch("edge-1", vm, sequence, nodes)


def work(in_flight: InFlight, ids: list[int]) -> list[list[int]]:
    return [column.tolist() for column in in_flight.work(ids)]


def test_work_is_summed_replaced_and_goes_with_its_vm() -> None:
    in_flight = InFlight()
    in_flight.apply(work_batch(1, 0, {7: (1000, 1500), 8: (10, 20)}), 0.0)
    in_flight.apply(work_batch(2, 0, {7: (200, 300)}), 2.0)
    assert work(in_flight, [7, 8, 9]) == [[1200, 10, 0], [1800, 20, 0]]
    in_flight.apply(work_batch(2, 1, {7: (0, 300)}), 2.2)
    assert work(in_flight, [7]) == [[1000], [1800]]
    in_flight.expire(VM_GONE_S + 0.1)
    assert work(in_flight, [7, 8]) == [[0, 0], [300, 0]]


def test_a_node_that_leaves_the_roster_and_comes_back_still_has_what_is_open_there() -> None:
    in_flight = InFlight()
    in_flight.apply(batch(1, 0, {7: 3, 8: 1}, age_s_sum=2.0), 10.0)
    in_flight.apply(batch(2, 0, {9: 4}), 10.0)
    for roster in ((9, 8), (8,), (6, 7, 8, 9)):
        in_flight.keep(roster)
        assert counts(in_flight, [6, 7, 8, 9], 10.0) == [0, 3, 1, 4]
    assert in_flight.totals([7], 11.0)[1].tolist() == [5.0]
    in_flight.apply(batch(1, 1, {7: 1}), 10.2)
    in_flight.apply(batch(2, 1, {}), 10.2)
    assert counts(in_flight, [6, 7, 8, 9], 10.2) == [0, 1, 0, 0]


def test_nodes_that_left_with_nothing_open_are_forgotten() -> None:
    in_flight = InFlight()
    for node_id in range(1000):
        in_flight.apply(batch(1, node_id, {node_id: 1}), 0.0)
        in_flight.keep((node_id, 5000))
    assert len(in_flight._rows) == 2


@given(
    st.lists(
        st.tuples(
            st.integers(0, 2),
            st.dictionaries(st.integers(0, 6), st.integers(0, 50)),
            st.none() | st.permutations(range(6)),
        ),
        max_size=20,
    )
)
def test_the_total_is_the_same_whatever_the_rosters_were(
    reports: list[tuple[int, dict[int, int], list[int] | None]],
) -> None:
    in_flight, last = InFlight(), dict[int, dict[int, int]]()
    for sequence, (vm, open_by_node, roster) in enumerate(reports):
        in_flight.apply(batch(vm, sequence, open_by_node), 0.0)
        last[vm] = open_by_node
        if roster is not None:
            in_flight.keep(tuple(roster[:4]))
        expected = [sum(report.get(node, 0) for report in last.values()) for node in range(7)]
        assert counts(in_flight, list(range(7)), 0.0) == expected
