"""The demo's fleet and the configurations written for it."""

from collections import Counter

from isocost.config import AgentConfig
from isocost.config_file import parse
from isocost.demo.fleet import by_rack, fleet
from isocost.demo.launch import wanted_ports
from isocost.demo.options import DemoOptions


def test_eight_unequal_nodes_in_two_racks_with_alternates_on_other_hosts() -> None:
    nodes = fleet(18101)
    assert len({node.name for node in nodes}) == 8
    assert [node.port for node in nodes] == list(range(18101, 18109))
    assert Counter(node.rack for node in nodes) == {"rack-a": 4, "rack-b": 4}
    assert Counter(node.gpu_kind for node in nodes) == {"H100": 6, "A100": 2}
    assert max(Counter(node.host for node in nodes).values()) == 2
    assert len({(node.rack, node.host) for node in nodes}) == 4


def test_the_agents_accept_their_configurations() -> None:
    for rack, nodes in by_rack(fleet(18101)).items():
        config = parse(
            AgentConfig,
            {"name": f"agent-{rack}", "nodes": [dict(node.agent_entry()) for node in nodes]},
            "demo",
        )
        assert [node.name for node in config.nodes] == [node.name for node in nodes]
        assert {node.rack for node in config.nodes} == {rack}


def test_every_port_of_the_demo_is_checked(options: DemoOptions) -> None:
    ports = wanted_ports(options)
    assert [want.port for want in ports] == [
        options.port,
        options.admin_port,
        options.control_plane_port,
        options.http_port,
        *range(options.node_port_base, options.node_port_base + 8),
    ]
