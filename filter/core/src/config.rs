//! The plugin configuration: one flat JSON object, parsed once, refused if anything in it is not
//! known. Its values are names and whole numbers, so that a JSON library would be size for nothing.

use crate::json::{members, name, Member};
use crate::number::whole_number;
use crate::pick::{Policy, MAX_ALTERNATES};
use crate::wire::string;

/// The slow settings of the filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilterConfig {
    pub policy: Policy,
    /// An older table is not used.
    pub max_table_age_ms: u64,
    /// How many nodes are listed behind the pick.
    pub alternates: usize,
    /// The Envoy cluster of the control plane.
    pub control_plane_cluster: String,
}

impl Default for FilterConfig {
    fn default() -> Self {
        FilterConfig {
            policy: Policy::WeightedRandom,
            max_table_age_ms: 5000,
            alternates: 2,
            control_plane_cluster: String::from("isocost_control_plane"),
        }
    }
}

/// Why a configuration was refused; the text names the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    text: String,
}

impl ConfigError {
    pub fn text(&self) -> &str {
        &self.text
    }

    fn new(parts: &[&[u8]]) -> ConfigError {
        ConfigError { text: string(&parts.concat()).unwrap_or_default() }
    }
}

const KNOWN_KEYS: &[u8] = b"policy, max_table_age_ms, alternates, control_plane_cluster";
/// An hour: as in the control plane's configuration.
const MAX_TABLE_AGE_MS: u64 = 3_600_000;

impl FilterConfig {
    /// Every key is optional; empty bytes mean the defaults.
    pub fn parse(bytes: &[u8]) -> Result<FilterConfig, ConfigError> {
        let mut config = FilterConfig::default();
        if bytes.is_empty() {
            return Ok(config);
        }
        if core::str::from_utf8(bytes).is_err() {
            return Err(ConfigError::new(&[b"configuration is not UTF-8"]));
        }
        let members = members(bytes).ok_or_else(|| {
            ConfigError::new(&[b"configuration is not a JSON object of names and whole numbers"])
        })?;
        let mut seen = Vec::new();
        for Member { key, value } in members {
            if seen.contains(&key) {
                return Err(ConfigError::new(&[key, b": given twice"]));
            }
            seen.push(key);
            match config.set(key, value) {
                Set::Done => {}
                Set::Refused(allowed) => {
                    let why = b" is not allowed; it must be ";
                    return Err(ConfigError::new(&[key, b": ", value, why, allowed.as_bytes()]));
                }
                Set::UnknownKey => {
                    return Err(ConfigError::new(&[key, b": unknown key; known are ", KNOWN_KEYS]));
                }
            }
        }
        Ok(config)
    }

    /// Sets one key.
    fn set(&mut self, key: &[u8], value: &[u8]) -> Set {
        match key {
            b"policy" => {
                let known = [Policy::WeightedRandom, Policy::MinEntropy];
                let policy =
                    known.into_iter().find(|known| name(value) == Some(known.name().as_bytes()));
                store(&mut self.policy, policy, "weighted_random or min_entropy")
            }
            b"max_table_age_ms" => {
                let age = whole_number(value, MAX_TABLE_AGE_MS).filter(|&age| age > 0);
                store(&mut self.max_table_age_ms, age, "a whole number from 1 to 3600000")
            }
            b"alternates" => {
                let alternates = whole_number(value, MAX_ALTERNATES as u64).map(|n| n as usize);
                store(&mut self.alternates, alternates, "a whole number from 0 to 8")
            }
            b"control_plane_cluster" => {
                let cluster = name(value).filter(|name| !name.is_empty());
                let cluster = cluster.and_then(|name| string(name).ok());
                store(&mut self.control_plane_cluster, cluster, "the name of an Envoy cluster")
            }
            _ => Set::UnknownKey,
        }
    }
}

/// What became of one key.
enum Set {
    Done,
    /// What would have been allowed.
    Refused(&'static str),
    UnknownKey,
}

fn store<T>(place: &mut T, value: Option<T>, allowed: &'static str) -> Set {
    match value {
        Some(value) => {
            *place = value;
            Set::Done
        }
        None => Set::Refused(allowed),
    }
}
