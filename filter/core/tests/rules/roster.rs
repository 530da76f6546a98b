//! Which rosters are refused, and how nodes are found in one.

use isocost_core::roster::{Roster, RosterNode};

use crate::fixtures::{node, roster};

fn with_address(address: &str) -> Result<Roster, isocost_core::wire::DecodeError> {
    Roster::new(1, vec![RosterNode { address: String::from(address), ..node(0, "h") }])
}

#[test]
fn addresses_that_envoy_would_not_understand_are_refused() {
    for bad in [
        "",
        ":",
        "10.0.0.1",
        "10.0.0.1:",
        ":8000",
        "10.0.0.1:0",
        "10.0.0.1:65536",
        "10.0.0.1:99999999999999999999999",
        "10.0.0.1:+80",
        "10.0.0.1:080",
        "10.0.0.1:80 ",
        " 10.0.0.1:80",
        "10.0.0.1:80,10.0.0.2:80",
        "10.0.0.1,10.0.0.2:80",
        "10.0.0:80",
        "10.0.0.1.1:80",
        "10.0.0.256:80",
        "10.0.0.x:80",
        "gpu-1:80",
        "localhost:80",
        "::1:80",
        "[::1]",
        "[]:80",
        "[12]:80",
        "[::1%eth0]:80",
        "[::1,::2]:80",
        "10.0.0.1:80\r\nx: y",
    ] {
        let refused = with_address(bad).expect_err(bad);
        assert_eq!(refused.text(), "a node's address is not IP:port");
    }
}

#[test]
fn ip_and_port_are_accepted() {
    for good in ["0.0.0.0:1", "255.255.255.255:65535", "[::1]:80", "[fd00::a:1]:8000"] {
        assert!(with_address(good).is_ok(), "{good}");
    }
}

#[test]
fn two_nodes_of_one_id_are_refused() {
    let mut nodes: Vec<_> = (0..5).map(|slot| node(slot, "h")).collect();
    nodes[4].id = nodes[1].id;
    assert_eq!(Roster::new(1, nodes).unwrap_err().text(), "two nodes have the same id");
}

#[test]
fn a_node_without_an_id_is_refused() {
    let nodes = vec![node(0, "h"), RosterNode { id: 0, ..node(1, "h") }];
    assert_eq!(Roster::new(1, nodes).unwrap_err().text(), "a node has no id");
}

#[test]
fn a_node_is_found_by_its_address() {
    let roster = roster(300, 4);
    for (slot, node) in roster.nodes().iter().enumerate() {
        assert_eq!(roster.id_at(node.address.as_bytes()), Some(slot as u64 + 1000));
    }
    for absent in ["", "10.0.0.1", "10.0.0.1:80", "99.0.0.1:8000"] {
        assert_eq!(roster.id_at(absent.as_bytes()), None);
    }
}

#[test]
fn of_two_nodes_at_one_address_the_later_is_found() {
    let mut nodes: Vec<_> = (0..5).map(|slot| node(slot, "h")).collect();
    nodes[3].address = nodes[1].address.clone();
    let roster = Roster::new(1, nodes).unwrap();
    assert_eq!(roster.id_at(b"10.0.0.1:8000"), Some(1003));
}

#[test]
fn an_empty_roster_is_a_roster() {
    assert_eq!(Roster::decode(&[]).unwrap().nodes().len(), 0);
}
