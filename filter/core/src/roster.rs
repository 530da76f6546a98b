//! Who the nodes are. Changes rarely, so everything that does not depend on a table is worked out
//! here once: the nodes' grouping by host and rack, and the searches by address, id and model.

use core::cmp::Ordering;

use crate::address::{is_ip_port, split_port};
use crate::models::{Group, Models};
pub use crate::models::{ModelId, NodeModel};
use crate::sort::sort_slots;
use crate::wire::{set_string, DecodeError, Reader, Value};

/// One inference unit (IU): one engine instance with its GPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RosterNode {
    pub id: u64,
    /// ip:port, as Envoy prints it.
    pub address: String,
    pub rack: String,
    pub host: String,
    /// None named: it serves requests that name no model.
    pub models: Vec<NodeModel>,
    /// The length class: prompts of min <= tokens < max; 0 = no bound.
    pub min_input_tokens: u32,
    pub max_input_tokens: u32,
}

impl RosterNode {
    fn decode(bytes: &[u8]) -> Result<RosterNode, DecodeError> {
        let mut node = RosterNode::default();
        let mut reader = Reader::new(bytes);
        while let Some(field) = reader.field()? {
            match field {
                (1, Value::Fixed64(id)) => node.id = id,
                (4, Value::Bytes(address)) => set_string(&mut node.address, address)?,
                (5, Value::Bytes(rack)) => set_string(&mut node.rack, rack)?,
                (6, Value::Bytes(host)) => set_string(&mut node.host, host)?,
                (9, Value::Bytes(model)) => node.models.push(NodeModel::decode(model)?),
                (10, Value::Varint(tokens)) => node.min_input_tokens = tokens as u32,
                (11, Value::Varint(tokens)) => node.max_input_tokens = tokens as u32,
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
#[derive(Debug)]
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
    /// Ids with their slots, ordered by id. Beside each other, so that a search stays in the cache.
    by_id: Vec<(u64, u32)>,
    /// The slots' racks, numbered in the order of their names, and their slots one rack after the
    /// other.
    rack_of: Vec<u32>,
    by_rack: Vec<u32>,
    /// Where the length classes begin and end, rising.
    length_bounds: Vec<u32>,
    models: Models,
}

/// Length bounds beyond these are not told apart: each makes one more set of pools.
const MAX_LENGTH_BOUNDS: usize = 15;

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
        let by_id = check(&nodes)?;
        let by_host = sorted_by(&nodes, RosterNode::failure_domain);
        let by_rack = sorted_by(&nodes, rack);
        let rack_of = numbered(&nodes, &by_rack, rack);
        let mut addresses = Vec::new();
        let mut address_ends = Vec::with_capacity(nodes.len());
        for node in &nodes {
            addresses.extend_from_slice(node.address.as_bytes());
            address_ends.push(addresses.len());
        }
        let models = Models::index(&nodes, &rack_of);
        let by_address = sorted_by(&nodes, |node| node.address.as_bytes());
        let host_of = numbered(&nodes, &by_host, RosterNode::failure_domain);
        Ok(Roster {
            version,
            length_bounds: length_bounds(&nodes),
            nodes,
            addresses,
            address_ends,
            by_address,
            host_of,
            by_host,
            by_id,
            rack_of,
            by_rack,
            models,
        })
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

    /// The slot of the node with this id.
    pub fn slot_of(&self, id: u64) -> Option<u32> {
        let place = self.by_id.binary_search_by_key(&id, |(id, _)| *id).ok()?;
        self.by_id.get(place).map(|(_, slot)| *slot)
    }

    /// The model that is served under this name: its own, an alias, or that of an adapter.
    pub fn model(&self, name: &[u8]) -> Option<ModelId> {
        self.models.find(name)
    }

    /// Does any node say what it serves? If none does, every node serves everything.
    pub fn names_models(&self) -> bool {
        !self.models.is_empty()
    }

    /// The models' own names, sorted.
    pub fn model_names(&self) -> impl Iterator<Item = &str> {
        self.models.names()
    }

    /// The own name of the model behind a served name.
    pub fn model_name(&self, id: ModelId) -> &str {
        self.models.own_name(id)
    }

    /// Whose KV cache it is: an adapter's is not its model's.
    pub fn cache_name(&self, id: ModelId) -> &str {
        self.models.cache_name(id)
    }

    /// The KV cache that a token of the model needs, bytes; 0 = not known.
    pub fn kv_bytes_per_token(&self, id: ModelId) -> u64 {
        self.models.kv_bytes_per_token(id)
    }

    pub(crate) fn models(&self) -> &Models {
        &self.models
    }

    /// The nodes that serve a model; of no model, all.
    pub(crate) fn group(&self, model: Option<ModelId>) -> Option<&Group> {
        self.models.group(self.models.group_of(model)?)
    }

    pub(crate) fn by_rack(&self) -> &[u32] {
        &self.by_rack
    }

    /// The number of the rack that this slot is in.
    pub(crate) fn rack_of(&self, slot: u32) -> Option<u32> {
        self.rack_of.get(slot as usize).copied()
    }

    pub(crate) fn length_classes(&self) -> usize {
        self.length_bounds.len() + 2
    }

    /// The number of the class that these prompts belong to; 0 = there are none.
    pub(crate) fn length_class(&self, prompt_tokens: u32) -> usize {
        let place = self.length_bounds.partition_point(|&bound| bound <= prompt_tokens);
        if self.length_bounds.is_empty() {
            0
        } else {
            place + 1
        }
    }

    /// Does the node take the prompts of this class? Every node is in class 0.
    pub(crate) fn in_length_class(&self, slot: u32, class: usize) -> bool {
        let Some((begin, node)) = class.checked_sub(1).zip(self.node(slot)) else { return true };
        let begin = begin.checked_sub(1).and_then(|before| self.length_bounds.get(before));
        let begin = begin.copied().unwrap_or(0);
        node.min_input_tokens <= begin
            && (node.max_input_tokens == 0 || begin < node.max_input_tokens)
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

/// Refuses nodes that a request could not be sent to or accounted for; the ids with their slots, ordered.
fn check(nodes: &[RosterNode]) -> Result<Vec<(u64, u32)>, DecodeError> {
    if !nodes.iter().all(|node| is_ip_port(node.address.as_bytes())) {
        return Err(DecodeError::new("a node's address is not IP:port"));
    }
    let id = |slot: u32| nodes.get(slot as usize).map_or(0, |node| node.id);
    let slots = sorted(nodes.len(), &|a, b| id(a).cmp(&id(b)));
    let by_id: Vec<(u64, u32)> = slots.into_iter().map(|slot| (id(slot), slot)).collect();
    let mut previous = 0;
    for &(id, _) in &by_id {
        match id {
            0 => return Err(DecodeError::new("a node has no id")),
            id if id == previous => return Err(DecodeError::new("two nodes have the same id")),
            id => previous = id,
        }
    }
    Ok(by_id)
}

fn rack(node: &RosterNode) -> &[u8] {
    node.rack.as_bytes()
}

/// By what a text of the nodes they are ordered.
type TextOf = fn(&RosterNode) -> &[u8];

fn text_of(nodes: &[RosterNode], slot: u32, text: TextOf) -> &[u8] {
    nodes.get(slot as usize).map_or(&[], text)
}

/// The slots ordered by a text, then slot.
fn sorted_by(nodes: &[RosterNode], text: TextOf) -> Vec<u32> {
    sorted(nodes.len(), &|a, b| {
        text_of(nodes, a, text).cmp(text_of(nodes, b, text)).then(a.cmp(&b))
    })
}

#[inline(never)]
fn sorted(count: usize, compare: &dyn Fn(u32, u32) -> Ordering) -> Vec<u32> {
    let mut slots: Vec<u32> = (0..count as u32).collect();
    sort_slots(&mut slots, compare);
    slots
}

/// The number of each slot's part, where slots with the same text stand together in `order`.
fn numbered(nodes: &[RosterNode], order: &[u32], text: TextOf) -> Vec<u32> {
    let mut numbers = vec![0; order.len()];
    let mut number = 0;
    let mut previous = None;
    for &slot in order {
        let here = text_of(nodes, slot, text);
        if previous.is_some_and(|previous| previous != here) {
            number += 1;
        }
        previous = Some(here);
        if let Some(of_slot) = numbers.get_mut(slot as usize) {
            *of_slot = number;
        }
    }
    numbers
}

fn length_bounds(nodes: &[RosterNode]) -> Vec<u32> {
    let mut bounds = Vec::new();
    for node in nodes {
        for bound in [node.min_input_tokens, node.max_input_tokens] {
            if let (1.., Err(place)) = (bound, bounds.binary_search(&bound)) {
                bounds.insert(place, bound);
                bounds.truncate(MAX_LENGTH_BOUNDS);
            }
        }
    }
    bounds
}
