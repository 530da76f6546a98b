//! Who the nodes are. Changes rarely, so everything that does not depend on a table is worked out
//! here once: the nodes' grouping by host and the search by address.

use crate::address::{is_ip_port, split_port};
use crate::sort::sort_slots;
use crate::wire::{string, DecodeError, Reader, Value};

/// One inference unit (IU): one engine instance with its GPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RosterNode {
    pub id: u64,
    pub name: String,
    /// ip:port, as Envoy prints it.
    pub address: String,
    pub rack: String,
    pub host: String,
}

impl RosterNode {
    fn decode(bytes: &[u8]) -> Result<RosterNode, DecodeError> {
        let mut node = RosterNode::default();
        let mut reader = Reader::new(bytes);
        while let Some(field) = reader.field()? {
            match field {
                (1, Value::Fixed64(id)) => node.id = id,
                (2, Value::Bytes(name)) => node.name = string(name)?,
                (4, Value::Bytes(address)) => node.address = string(address)?,
                (5, Value::Bytes(rack)) => node.rack = string(rack)?,
                (6, Value::Bytes(host)) => node.host = string(host)?,
                _ => {}
            }
        }
        Ok(node)
    }

    /// What fails together with this node; the IP stands in for an unknown host.
    fn failure_domain(&self) -> &[u8] {
        if self.host.is_empty() {
            split_port(self.address.as_bytes()).map_or(&[], |(ip, _)| ip)
        } else {
            self.host.as_bytes()
        }
    }
}

/// The nodes in the order that the table's arrays follow. A node's position is its *slot*.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roster {
    version: u64,
    nodes: Vec<RosterNode>,
    /// All addresses in slot order, and where each ends: a request writes three of them, and close
    /// together they stay in the cache in a large fleet too.
    addresses: Vec<u8>,
    address_ends: Vec<usize>,
    /// Slots ordered by address.
    by_address: Vec<u32>,
    /// Slots ordered by host, then slot.
    by_host: Vec<u32>,
    /// Each slot's host, numbered in the order of `by_host`.
    host_of: Vec<u32>,
}

impl Roster {
    /// Reads an isocost.v1.Roster; refuses invalid addresses, missing and duplicate ids.
    pub fn decode(bytes: &[u8]) -> Result<Roster, DecodeError> {
        let mut version = 0;
        let mut nodes = Vec::new();
        let mut reader = Reader::new(bytes);
        while let Some(field) = reader.field()? {
            match field {
                (1, Value::Fixed64(value)) => version = value,
                (2, Value::Bytes(node)) => nodes.push(RosterNode::decode(node)?),
                _ => {}
            }
        }
        Roster::new(version, nodes)
    }

    /// Checks and indexes the nodes.
    pub fn new(version: u64, nodes: Vec<RosterNode>) -> Result<Roster, DecodeError> {
        let mut order: Vec<u32> = (0..nodes.len() as u32).collect();
        check(&nodes, &mut order)?;
        let node = |slot: u32| nodes.get(slot as usize);
        let address = |slot| node(slot).map(|node| node.address.as_bytes());
        sort_slots(&mut order, &|a, b| address(a).cmp(&address(b)).then(a.cmp(&b)));
        let by_address = order.clone();
        let domain = |slot| node(slot).map(RosterNode::failure_domain);
        sort_slots(&mut order, &|a, b| domain(a).cmp(&domain(b)).then(a.cmp(&b)));
        let mut host_of = vec![0; nodes.len()];
        let mut host = 0;
        let mut previous = None;
        for &slot in &order {
            if previous.is_some_and(|previous| domain(previous) != domain(slot)) {
                host += 1;
            }
            previous = Some(slot);
            if let Some(of_slot) = host_of.get_mut(slot as usize) {
                *of_slot = host;
            }
        }
        let mut addresses = Vec::new();
        let mut address_ends = Vec::with_capacity(nodes.len());
        for node in &nodes {
            addresses.extend_from_slice(node.address.as_bytes());
            address_ends.push(addresses.len());
        }
        Ok(Roster { version, nodes, addresses, address_ends, by_address, by_host: order, host_of })
    }

    pub fn version(&self) -> u64 {
        self.version
    }

    pub fn nodes(&self) -> &[RosterNode] {
        &self.nodes
    }

    /// The node in this slot.
    pub fn node(&self, slot: u32) -> Option<&RosterNode> {
        self.nodes.get(slot as usize)
    }

    /// The id of the node at this address (as Envoy prints it in `upstream.address`). While a
    /// restarted engine and its predecessor share an address, the later one in the roster.
    pub fn id_at(&self, address: &[u8]) -> Option<u64> {
        let end = self.by_address.partition_point(|&slot| self.address(slot) <= Some(address));
        let slot = *self.by_address.get(end.checked_sub(1)?)?;
        self.node(slot).filter(|_| self.address(slot) == Some(address)).map(|node| node.id)
    }

    /// The address of the node in this slot.
    pub(crate) fn address(&self, slot: u32) -> Option<&[u8]> {
        let slot = slot as usize;
        let start = match slot.checked_sub(1) {
            Some(before) => *self.address_ends.get(before)?,
            None => 0,
        };
        self.addresses.get(start..*self.address_ends.get(slot)?)
    }

    pub(crate) fn by_host(&self) -> &[u32] {
        &self.by_host
    }

    /// The number of the host that this slot is on.
    pub(crate) fn host_of(&self, slot: u32) -> Option<u32> {
        self.host_of.get(slot as usize).copied()
    }
}

/// Refuses nodes that a request could not be sent to or accounted for. Sorts the slots by id.
fn check(nodes: &[RosterNode], slots: &mut [u32]) -> Result<(), DecodeError> {
    if !nodes.iter().all(|node| is_ip_port(node.address.as_bytes())) {
        return Err(DecodeError::new("a node's address is not IP:port"));
    }
    let id = |slot: u32| nodes.get(slot as usize).map_or(0, |node| node.id);
    sort_slots(slots, &|a, b| id(a).cmp(&id(b)));
    let mut previous = 0;
    for &slot in slots.iter() {
        match id(slot) {
            0 => return Err(DecodeError::new("a node has no id")),
            id if id == previous => return Err(DecodeError::new("two nodes have the same id")),
            id => previous = id,
        }
    }
    Ok(())
}
