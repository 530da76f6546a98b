//! The plugin configuration: one flat JSON object, parsed once, refused if anything in it is not
//! known. Its values are names and whole numbers, so that a JSON library would be size for nothing.

use crate::json::{members, name, Member};
use crate::model_source::{parse_sources, Source, ALLOWED_SOURCES};
use crate::number::whole_number;
use crate::pick::{Policy, Rules, MAX_ALTERNATES};
use crate::wire::string;

/// The slow settings of the filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilterConfig {
    pub rules: Rules,
    /// An older table is not used.
    pub max_table_age_ms: u64,
    /// So much of a body is read at most; 0 = bodies are not read.
    pub profile_limit_bytes: usize,
    /// Where the name of the model is looked for, ...
    pub model_from: Vec<Source>,
    /// ... and that of the user.
    pub user_from: Vec<Source>,
    /// The Envoy cluster of the control plane.
    pub control_plane_cluster: String,
}

impl Default for FilterConfig {
    fn default() -> Self {
        FilterConfig {
            rules: Rules {
                policy: Policy::EqualCost,
                alternates: 2,
                projection: true,
                dispersion: true,
            },
            max_table_age_ms: 5000,
            profile_limit_bytes: 256 * 1024,
            model_from: parse_sources(b"header:x-isocost-model,body").unwrap_or_default(),
            user_from: parse_sources(b"header:x-isocost-user,body").unwrap_or_default(),
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

const KNOWN_KEYS: &[u8] = b"policy, max_table_age_ms, alternates, projection, dispersion, \
    profile_limit_bytes, model_from, user_from, control_plane_cluster";
/// As in the control plane's configuration.
const MAX_PROFILE_LIMIT_BYTES: u64 = 8 << 20;
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
        // Patterns of bytes would be compared byte by byte, in code.
        match core::str::from_utf8(key).unwrap_or_default() {
            "policy" => {
                let policy = Policy::ALL
                    .into_iter()
                    .find(|policy| name(value) == Some(policy.name().as_bytes()));
                store(&mut self.rules.policy, policy, "equal_cost, min_entropy or weighted_random")
            }
            "max_table_age_ms" => {
                let age = whole_number(value, MAX_TABLE_AGE_MS).filter(|&age| age > 0);
                store(&mut self.max_table_age_ms, age, "a whole number from 1 to 3600000")
            }
            "alternates" => {
                let alternates = whole_number(value, MAX_ALTERNATES as u64).map(|n| n as usize);
                store(&mut self.rules.alternates, alternates, "a whole number from 0 to 8")
            }
            "projection" => store(&mut self.rules.projection, switch(value), SWITCH),
            "dispersion" => store(&mut self.rules.dispersion, switch(value), SWITCH),
            "profile_limit_bytes" => {
                let limit = whole_number(value, MAX_PROFILE_LIMIT_BYTES).map(|n| n as usize);
                store(&mut self.profile_limit_bytes, limit, "a whole number from 0 to 8388608")
            }
            "model_from" => store(&mut self.model_from, sources(value), ALLOWED_SOURCES),
            "user_from" => store(&mut self.user_from, sources(value), ALLOWED_SOURCES),
            "control_plane_cluster" => {
                let cluster = name(value).filter(|name| !name.is_empty());
                let cluster = cluster.and_then(|name| string(name).ok());
                store(&mut self.control_plane_cluster, cluster, "the name of an Envoy cluster")
            }
            _ => Set::UnknownKey,
        }
    }
}

const SWITCH: &str = "0 or 1";

fn switch(value: &[u8]) -> Option<bool> {
    whole_number(value, 1).map(|number| number == 1)
}

fn sources(value: &[u8]) -> Option<Vec<Source>> {
    name(value).and_then(parse_sources)
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
