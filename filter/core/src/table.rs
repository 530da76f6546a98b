//! The numbers of the nodes, pushed every tick.

use crate::wire::{floats, DecodeError, Reader, Value};

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

/// One table; the arrays have equal lengths and follow the roster's order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    pub version: u64,
    pub roster_version: u64,
    pub built_at_unix_ms: u64,
    pub weight: Vec<f32>,
    pub entropy: Vec<f32>,
    pub state: Vec<u8>,
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
                (4, _) => floats(value, &mut table.weight)?,
                (5, _) => floats(value, &mut table.entropy)?,
                (6, Value::Bytes(state)) => table.state = state.to_vec(),
                _ => {}
            }
        }
        if table.even() {
            Ok(table)
        } else {
            Err(DecodeError::new("weight, entropy and state differ in length"))
        }
    }

    pub(crate) fn even(&self) -> bool {
        self.weight.len() == self.entropy.len() && self.entropy.len() == self.state.len()
    }
}
