//! Whatever bytes come, decoding answers with a value or an error: a panic would be a trap.

use isocost_core::config::FilterConfig;
use isocost_core::fleet::Fleet;
use isocost_core::pick::Policy;
use isocost_core::roster::Roster;
use isocost_core::table::Table;
use isocost_core::workers::Workers;
use isocost_core::xds::Response;
use isocost_core::Rng;
use proptest::prelude::*;

use crate::fixtures::{pick, property};
use crate::golden::{BATCH, RESPONSE, ROSTER, TABLE};

const CONFIG: &[u8] = br#"{"policy":"min_entropy","max_table_age_ms":750,"alternates":3}"#;

fn decode_everything(bytes: &[u8]) {
    let _ = Response::decode(bytes);
    let _ = FilterConfig::parse(bytes);
    let mut workers = Workers::default();
    workers.heard(bytes, 1);
    assert!(workers.count(1).0 <= 1);
    if let Ok(table) = Table::decode(bytes) {
        pick_from(table);
    }
    if let Ok(roster) = Roster::decode(bytes) {
        for node in roster.nodes() {
            assert!(roster.id_at(node.address.as_bytes()).is_some());
        }
    }
}

/// A table that decodes must also build and pick.
fn pick_from(table: Table) {
    let Ok(fleet) = Fleet::build(Roster::decode(ROSTER).unwrap().into(), table) else { return };
    let mut rng = Rng::with_seed(1);
    for policy in Policy::ALL {
        let _ = pick(&fleet, policy, 8, &mut rng);
    }
}

/// A valid message with some bytes overwritten, inserted or removed, and perhaps cut.
fn mutated() -> impl Strategy<Value = Vec<u8>> {
    let valid = prop::sample::select(vec![ROSTER, TABLE, RESPONSE, BATCH, CONFIG]);
    let edits = prop::collection::vec((any::<prop::sample::Index>(), 0u8..4, any::<u8>()), 0..6);
    (valid, edits).prop_map(|(valid, edits)| {
        let mut bytes = valid.to_vec();
        for (index, edit, byte) in edits {
            if bytes.is_empty() {
                break;
            }
            let at = index.index(bytes.len());
            match edit {
                0 => bytes[at] = byte,
                1 => bytes.insert(at, byte),
                2 => drop(bytes.remove(at)),
                _ => bytes.truncate(at),
            }
        }
        bytes
    })
}

proptest! {
    #![proptest_config(property(8))]

    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        decode_everything(&bytes);
    }

    #[test]
    fn mutated_messages_never_panic(bytes in mutated()) {
        decode_everything(&bytes);
    }
}

#[test]
fn a_message_cut_anywhere_never_panics() {
    for valid in [ROSTER, TABLE, RESPONSE, BATCH, CONFIG] {
        for len in 0..valid.len() {
            decode_everything(&valid[..len]);
        }
    }
}
