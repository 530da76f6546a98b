//! The numbers of the nodes, pushed every tick.

use crate::wire::{floats, longs, uints, DecodeError, Reader, Value};

/// The numbers of isocost.v1.NodeState.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeState {
    Unspecified = 0,
    Warming = 1,
    Serving = 2,
    Suspect = 3,
    Draining = 4,
    Ejected = 5,
    Lost = 6,
}

impl NodeState {
    /// A state that this version does not know is as good as none.
    pub fn from_byte(byte: u8) -> NodeState {
        match byte {
            1 => NodeState::Warming,
            2 => NodeState::Serving,
            3 => NodeState::Suspect,
            4 => NodeState::Draining,
            5 => NodeState::Ejected,
            6 => NodeState::Lost,
            _ => NodeState::Unspecified,
        }
    }

    /// May a node in this state be listed?
    pub fn eligible(self) -> bool {
        matches!(self, NodeState::Warming | NodeState::Serving | NodeState::Suspect)
    }
}

/// One VM of an Envoy, and what of it went into a table.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Seen {
    pub incarnation: u64,
    /// Of its last batch that the table contains.
    pub sequence: u64,
    /// Its part of the fleet's requests; 0 = not known.
    pub share: f32,
}

/// Beginnings of prompts that a node was seen to have answered lately.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    pub node_id: u64,
    pub blocks: Vec<u64>,
}

/// One table; the arrays follow the roster's order. Those from `capacity` on may be empty.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    pub version: u64,
    pub roster_version: u64,
    pub built_at_unix_ms: u64,
    pub weight: Vec<f32>,
    pub entropy: Vec<f32>,
    pub state: Vec<u8>,
    pub capacity: Vec<f32>,
    pub pending_tokens: Vec<u32>,
    pub open: Vec<u32>,
    pub kv_tokens: Vec<u32>,
    pub token_s: Vec<f32>,
    pub request_s: Vec<f32>,
    pub extra_s: Vec<f32>,
    pub kv_capacity_tokens: Vec<f32>,
    pub seen: Vec<Seen>,
    pub placements: Vec<Placement>,
}

impl Table {
    /// Reads an isocost.v1.Table; refuses arrays of unequal length.
    pub fn decode(bytes: &[u8]) -> Result<Table, DecodeError> {
        let mut table = Table::default();
        let mut reader = Reader::new(bytes);
        while let Some((number, value)) = reader.field()? {
            match (number, value) {
                (1, Value::Fixed64(version)) => table.version = version,
                (2, Value::Fixed64(version)) => table.roster_version = version,
                (3, Value::Fixed64(time)) => table.built_at_unix_ms = time,
                (6, Value::Bytes(state)) => table.state = state.to_vec(),
                (8..=10, _) => {
                    let column = match number {
                        8 => &mut table.pending_tokens,
                        9 => &mut table.open,
                        _ => &mut table.kv_tokens,
                    };
                    uints(value, column)?;
                }
                (15, Value::Bytes(seen)) => table.seen.push(Seen::decode(seen)?),
                (16, Value::Bytes(placed)) => table.placements.push(Placement::decode(placed)?),
                _ => {
                    let column = match number {
                        4 => &mut table.weight,
                        5 => &mut table.entropy,
                        7 => &mut table.capacity,
                        11 => &mut table.token_s,
                        12 => &mut table.request_s,
                        13 => &mut table.extra_s,
                        14 => &mut table.kv_capacity_tokens,
                        _ => continue,
                    };
                    floats(value, column)?;
                }
            }
        }
        if table.even() {
            Ok(table)
        } else {
            Err(DecodeError::new("the table's columns differ in length"))
        }
    }

    pub(crate) fn even(&self) -> bool {
        let optional = [
            self.capacity.len(),
            self.pending_tokens.len(),
            self.open.len(),
            self.kv_tokens.len(),
            self.token_s.len(),
            self.request_s.len(),
            self.extra_s.len(),
            self.kv_capacity_tokens.len(),
        ];
        let len = self.weight.len();
        len == self.entropy.len()
            && len == self.state.len()
            && optional.iter().all(|&other| other == 0 || other == len)
    }
}

impl Seen {
    fn decode(bytes: &[u8]) -> Result<Seen, DecodeError> {
        let mut seen = Seen::default();
        let mut reader = Reader::new(bytes);
        while let Some(field) = reader.field()? {
            match field {
                (1, Value::Fixed64(incarnation)) => seen.incarnation = incarnation,
                (2, Value::Varint(sequence)) => seen.sequence = sequence,
                (3, Value::Fixed32(share)) => seen.share = f32::from_bits(share),
                _ => {}
            }
        }
        Ok(seen)
    }
}

impl Placement {
    fn decode(bytes: &[u8]) -> Result<Placement, DecodeError> {
        let mut placement = Placement::default();
        let mut reader = Reader::new(bytes);
        while let Some((number, value)) = reader.field()? {
            match (number, value) {
                (1, Value::Fixed64(id)) => placement.node_id = id,
                (2, _) => longs(value, &mut placement.blocks)?,
                _ => {}
            }
        }
        Ok(placement)
    }
}
