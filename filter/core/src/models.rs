//! Which nodes serve which model, by every name that a request may use for it.

use crate::pick::affinity::Homes;
use crate::roster::RosterNode;
use crate::wire::{push_string, set_string, DecodeError, Reader, Value};

/// A model that a node serves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeModel {
    pub name: String,
    pub aliases: Vec<String>,
    /// LoRA adapters that are loaded on it, asked for by their own names.
    pub adapters: Vec<String>,
    /// 0 = not known.
    pub kv_bytes_per_token: u64,
    /// Input and output together; 0 = not known.
    pub max_length_tokens: u32,
}

impl NodeModel {
    pub(crate) fn decode(bytes: &[u8]) -> Result<NodeModel, DecodeError> {
        let mut model = NodeModel::default();
        let mut reader = Reader::new(bytes);
        while let Some(field) = reader.field()? {
            match field {
                (1, Value::Bytes(name)) => set_string(&mut model.name, name)?,
                (2, Value::Bytes(alias)) => push_string(&mut model.aliases, alias)?,
                (5, Value::Varint(bytes)) => model.kv_bytes_per_token = bytes,
                (6, Value::Varint(tokens)) => model.max_length_tokens = tokens as u32,
                (7, Value::Bytes(adapter)) => push_string(&mut model.adapters, adapter)?,
                _ => {}
            }
        }
        Ok(model)
    }
}

/// A name under which nodes serve a model, by its number in the roster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelId(u32);

/// A node of a group, and the longest input with output that it takes; 0 = not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    pub slot: u32,
    pub max_length_tokens: u32,
}

/// The nodes that serve a name, in rising order. Names that the same nodes serve share one.
#[derive(Debug)]
pub(crate) struct Group {
    pub members: Vec<Member>,
    /// Which racks a user belongs to.
    pub homes: Homes,
}

#[derive(Debug)]
struct Served {
    name: String,
    own_name: String,
    is_adapter: bool,
    members: Vec<Member>,
    group: u32,
    kv_bytes_per_token: u64,
}

#[derive(Debug)]
pub(crate) struct Models {
    /// Ordered by name.
    served: Vec<Served>,
    /// The first has all nodes.
    groups: Vec<Group>,
}

impl Models {
    pub fn index(nodes: &[RosterNode], rack_of: &[u32]) -> Models {
        let mut models = Models { served: Vec::new(), groups: Vec::new() };
        let mut all = Vec::with_capacity(nodes.len());
        for (slot, node) in nodes.iter().enumerate() {
            let slot = slot as u32;
            // Less one, so that one that is not known is the longest.
            let lengths = node.models.iter().map(|model| model.max_length_tokens.wrapping_sub(1));
            let longest = lengths.max().map_or(0, |length| length.wrapping_add(1));
            all.push(Member { slot, max_length_tokens: longest });
            for model in &node.models {
                models.serve(&model.name, model, slot);
                for name in model.aliases.iter().chain(&model.adapters) {
                    models.serve(name, model, slot);
                }
            }
        }
        let racks = |members: &[Member]| Homes::of_racks(members, nodes, rack_of);
        models.groups.push(Group { homes: racks(&all), members: all });
        for served in &mut models.served {
            let members = core::mem::take(&mut served.members);
            let known = models.groups.iter().position(|group| group.members == members);
            served.group = known.unwrap_or(models.groups.len()) as u32;
            if known.is_none() {
                models.groups.push(Group { homes: racks(&members), members });
            }
        }
        models
    }

    fn serve(&mut self, name: &str, model: &NodeModel, slot: u32) {
        if name.is_empty() {
            return;
        }
        let place = self.served.binary_search_by(|served| served.name.as_str().cmp(name));
        let place = place.unwrap_or_else(|place| {
            self.served.insert(
                place,
                Served {
                    name: String::from(name),
                    own_name: String::from(&*model.name),
                    is_adapter: false,
                    members: Vec::new(),
                    group: 0,
                    kv_bytes_per_token: 0,
                },
            );
            place
        });
        let Some(served) = self.served.get_mut(place) else { return };
        if name == model.name {
            // A model's own name is never another's alias.
            served.own_name.clear();
            served.own_name.push_str(name);
        }
        served.is_adapter |= model.adapters.iter().any(|adapter| adapter == name);
        served.kv_bytes_per_token = served.kv_bytes_per_token.max(model.kv_bytes_per_token);
        if served.members.last().is_none_or(|member| member.slot != slot) {
            served.members.push(Member { slot, max_length_tokens: model.max_length_tokens });
        }
    }

    pub fn is_empty(&self) -> bool {
        self.served.is_empty()
    }

    pub fn find(&self, name: &[u8]) -> Option<ModelId> {
        let place = self.served.binary_search_by(|served| served.name.as_bytes().cmp(name));
        place.ok().map(|place| ModelId(place as u32))
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        let own = |served: &&Served| served.name == served.own_name;
        self.served.iter().filter(own).map(|served| served.name.as_str())
    }

    pub fn own_name(&self, id: ModelId) -> &str {
        self.served.get(id.0 as usize).map_or("", |served| &served.own_name)
    }

    pub fn cache_name(&self, id: ModelId) -> &str {
        match self.served.get(id.0 as usize) {
            Some(served) if served.is_adapter => &served.name,
            _ => self.own_name(id),
        }
    }

    pub fn kv_bytes_per_token(&self, id: ModelId) -> u64 {
        self.served.get(id.0 as usize).map_or(0, |served| served.kv_bytes_per_token)
    }

    /// The number of the group that serves the model, 0 for no model; None for one of another
    /// roster.
    pub fn group_of(&self, model: Option<ModelId>) -> Option<usize> {
        let Some(id) = model else { return Some(0) };
        self.served.get(id.0 as usize).map(|served| served.group as usize)
    }

    pub fn groups(&self) -> usize {
        self.groups.len()
    }

    pub fn group(&self, number: usize) -> Option<&Group> {
        self.groups.get(number)
    }
}
