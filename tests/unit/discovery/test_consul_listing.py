"""What an answer of Consul says: addresses, checks, and what is refused and why."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isocost.discovery.consul_client import heartbeat_id
from isocost.discovery.consul_listing import ENGINE_GONE, ListingReader
from isocost.discovery.listing import Check, Listing
from isocost.errors import DiscoveryError
from tests.unit.discovery.fake_consul import check, instance

OURS = heartbeat_id("isocost:a1:n1")


def read(*entries: dict[str, Any]) -> Listing:
    return ListingReader().read(json.dumps(entries).encode())


def refusal(entry: dict[str, Any]) -> str:
    answer = read(entry)
    assert answer.nodes == ()
    (reason,) = answer.refused
    return reason


def check_of(*checks: dict[str, str]) -> Check:
    (listed,) = read(instance("n1", checks=checks)).nodes
    return listed.check


def test_an_empty_service_address_means_the_machines() -> None:
    (listed,) = read(instance("n1", address="", machine_address="192.0.2.7")).nodes
    assert listed.node.address == "192.0.2.7:8000"


def test_without_any_address_an_instance_is_refused() -> None:
    reason = refusal(instance("n1", address="", machine_address=""))
    assert reason == (
        "isocost:a1:n1 on m1: it has no address: neither the service nor its machine tells one"
    )


def test_port_0_is_refused() -> None:
    assert "it has no port" in refusal(instance("n1", port=0))


@pytest.mark.parametrize("port", [-1, 65536])
def test_a_port_that_is_none_is_refused(port: int) -> None:
    assert "between 1 and 65535" in refusal(instance("n1", port=port))


@pytest.mark.parametrize("address", ["2001:DB8::1", "[2001:db8::1]", "2001:db8:0:0::1"])
def test_ipv6_is_bracketed_and_written_as_envoy_prints_it(address: str) -> None:
    (listed,) = read(instance("n1", address=address)).nodes
    assert listed.node.address == "[2001:db8::1]:8000"


def test_an_address_with_a_zone_is_refused() -> None:
    assert "zone" in refusal(instance("n1", address="fe80::1%eth0"))


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "224.0.0.1"])
def test_an_address_of_no_machine_is_refused(address: str) -> None:
    assert "one machine" in refusal(instance("n1", address=address))


def test_an_ipv4_address_in_an_ipv6_one_is_that_address() -> None:
    (listed,) = read(instance("n1", address="::ffff:192.0.2.7")).nodes
    assert listed.node.address == "192.0.2.7:8000"


def test_a_name_stays_a_name() -> None:
    (listed,) = read(instance("n1", address="gpu-7.example.com")).nodes
    assert listed.node.address == "gpu-7.example.com:8000"


@pytest.mark.parametrize("address", ["http://192.0.2.1", "a b", "x/y", "a,b", "\u00fc"])
def test_an_address_that_is_none_is_refused(address: str) -> None:
    assert "address" in refusal(instance("n1", address=address))


def test_who_registers_by_other_means_needs_a_rack_only() -> None:
    entry = instance("n1", meta={})
    entry["Service"] |= {"ID": "vllm-3", "Meta": {"rack": "r9"}}
    (listed,) = read(entry).nodes
    node = listed.node
    assert (node.name, node.host, node.rack, node.instance_id) == ("vllm-3", "m1", "r9", "vllm-3@0")


@pytest.mark.parametrize("meta", [None, {}])
def test_without_a_rack_an_instance_is_refused(meta: dict[str, str] | None) -> None:
    entry = instance("n1")
    entry["Service"] |= {"ID": "vllm-3", "Meta": meta}
    assert refusal(entry) == "vllm-3 on m1: rack: it is required"


@pytest.mark.parametrize(
    ("meta", "part"),
    [
        ({"gpu_count": "many"}, "gpu_count: 'many' is no number"),
        ({"gpu_count": "0"}, "gpu_count: 0 is not allowed"),
        ({"start_epoch": "-3"}, "start_epoch"),
        ({"start_epoch": "9" * 5000}, "start_epoch"),
        ({"models_0": "[{"}, "models_*: not JSON"),
        ({"models_0": "7"}, "models"),
        ({"models_0": '[{"name":"m","colour":1}]'}, "unknown key"),
        ({"node": "a b"}, "name"),
        ({"rack": ""}, "rack"),
        ({"rack": "\ud800"}, "rack"),
        ({"models_0": '[{"name":"' + "m" * 10_000 + '","kv_bytes_per_token":-1}]'}, "kv_bytes"),
    ],
)
def test_a_refused_value_is_named_and_the_others_are_listed(
    meta: dict[str, str], part: str
) -> None:
    bad, good = instance("n1", meta=meta), instance("n2", address="192.0.2.2")
    answer = read(bad, good)
    assert [listed.node.name for listed in answer.nodes] == ["n2"]
    (reason,) = answer.refused
    assert part in reason and len(reason) <= 300


@pytest.mark.parametrize(
    ("checks", "said"),
    [
        ((), Check.PASSING),
        ((check("serfHealth", "passing"), check(OURS, "passing")), Check.PASSING),
        ((check(OURS, "warning"),), Check.WARNING),
        ((check("http", "warning"),), Check.WARNING),
        ((check(OURS, "critical", "TTL expired"),), Check.AGENT_LATE),
        ((check(OURS, "critical"),), Check.AGENT_LATE),
        ((check(OURS, "critical", ENGINE_GONE),), Check.CRITICAL),
        ((check("http", "critical"),), Check.CRITICAL),
        ((check(heartbeat_id("isocost:a1:n2"), "critical"),), Check.CRITICAL),
        ((check("serfHealth", "critical"),), Check.AGENT_LATE),
        ((check("serfHealth", "critical"), check(OURS, "critical")), Check.AGENT_LATE),
        ((check("serfHealth", "critical"), check("http", "critical")), Check.CRITICAL),
        ((check("http", "something new"),), Check.CRITICAL),
        ((check("_node_maintenance", "critical"),), Check.MAINTENANCE),
        ((check("_service_maintenance:isocost:a1:n1", "critical"),), Check.MAINTENANCE),
        ((check("_node_maintenance", "critical"), check("x", "critical")), Check.MAINTENANCE),
    ],
)
def test_all_checks_of_service_and_machine_count(
    checks: tuple[dict[str, str], ...], said: Check
) -> None:
    assert check_of(*checks) is said


def test_checks_in_another_order_are_the_same() -> None:
    checks = (check("a", "passing"), check("b", "warning"), check(OURS, "critical"))
    one, other = instance("n1", checks=checks), instance("n1", checks=checks[::-1])
    assert read(one, instance("n2", address="b")) == read(instance("n2", address="b"), other)


def test_of_two_records_of_a_node_the_living_one_counts() -> None:
    ghost = instance("n1", machine="m1", checks=(check("serfHealth", "critical"),))
    alive = instance("n1", machine="m2", address="192.0.2.2")
    answer = read(ghost, alive)
    assert [listed.node.address for listed in answer.nodes] == ["192.0.2.2:8000"]
    assert answer.refused == ("isocost:a1:n1 on m1: node n1 belongs to isocost:a1:n1 on m2",)


def test_of_two_living_ones_that_which_started_last_counts() -> None:
    old = instance("n1", machine="m1", meta={"start_epoch": "1000"})
    new = instance("n1", machine="m2", address="192.0.2.2", meta={"start_epoch": "2000"})
    (listed,) = read(old, new).nodes
    assert listed.node.instance_id == "n1@2000"


def test_an_address_belongs_to_one_node() -> None:
    answer = read(instance("n1"), instance("n2"))
    assert [listed.node.name for listed in answer.nodes] == ["n1"]
    assert answer.refused == (
        "isocost:a1:n2 on m1: address 192.0.2.1:8000 belongs to isocost:a1:n1 on m1",
    )


def test_a_node_that_did_not_change_is_not_read_again() -> None:
    reader = ListingReader()
    first = reader.read(json.dumps([instance("n1", checks=(check("c", "passing"),))]).encode())
    second = reader.read(json.dumps([instance("n1", checks=(check("c", "warning"),))]).encode())
    assert second.nodes[0].node is first.nodes[0].node and second != first


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)
_PLACES = (
    ("Node",),
    ("Service",),
    ("Checks",),
    ("Node", "Node"),
    ("Node", "Address"),
    ("Service", "ID"),
    ("Service", "Address"),
    ("Service", "Port"),
    ("Service", "Meta"),
    ("Service", "Meta", "rack"),
    ("Service", "Meta", "gpu_count"),
    ("Service", "Meta", "models_0"),
    ("Checks", 0),
    ("Checks", 0, "Status"),
    ("Checks", 0, "Output"),
)


@given(place=st.sampled_from(_PLACES), value=_JSON)
def test_whatever_stands_anywhere_is_refused_or_read(place: tuple[Any, ...], value: object) -> None:
    entry: Any = instance("n1", checks=(check("c", "passing"),))
    inner = entry
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    try:
        answer = read(entry)
    except DiscoveryError:
        return
    assert len(answer.nodes) + len(answer.refused) == 1


@given(text=st.text(max_size=40))
def test_whatever_a_models_text_says_is_refused_or_read(text: str) -> None:
    answer = read(instance("n1", meta={"models_0": text}))
    assert len(answer.nodes) + len(answer.refused) == 1
