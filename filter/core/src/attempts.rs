//! Which listed nodes failed before the one that answered. Envoy tells a filter only how many
//! attempts there were and where the last one went.

use crate::pick::Pick;
use crate::roster::Roster;

/// What Envoy's attempt count and the last upstream's address say about a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempts<'a> {
    /// The slots that were tried and failed before the answer.
    pub failed: &'a [u32],
    /// Attempts that failed, node not known.
    pub unknown: u32,
    /// The node that answered; None if its address is not in the roster.
    pub used: Option<u64>,
    /// Envoy passed over a listed node: its cluster did not have it any more.
    pub stale: bool,
}

/// Judges a request by the roster it was picked from.
///
/// Envoy walks the list in order, so with attempt count k the first k-1 listed nodes failed,
/// provided that the k-th is the observed one. With more attempts than nodes on the list all of
/// them failed; what came after them was Envoy's own choice. In any other case a listed host was not
/// in the cluster and skipped: the choice was stale, and nobody knows which nodes the attempts went
/// to.
///
/// `listed` is None for a request that was left to Envoy's fallback policy; `attempt_count` is
/// `upstream.request_attempt_count` (1 = first attempt, 0 = not known), `observed` is
/// `upstream.address`.
pub fn judge<'a>(
    roster: &Roster,
    listed: Option<&'a Pick>,
    attempt_count: u64,
    observed: &[u8],
) -> Attempts<'a> {
    let before = usize::try_from(attempt_count.saturating_sub(1)).unwrap_or(usize::MAX);
    let slots = listed.map_or(&[][..], Pick::slots);
    let (failed, rest) = slots.split_at_checked(before).unwrap_or((slots, &[]));
    let answered = rest.first().and_then(|&slot| roster.node(slot));
    if let Some(node) = answered.filter(|node| node.address.as_bytes() == observed) {
        return Attempts { failed, unknown: 0, used: Some(node.id), stale: false };
    }
    // Without an attempt or an address nothing was chosen, so nothing was passed over.
    let stale = !rest.is_empty() && attempt_count > 0 && !observed.is_empty();
    let failed = if rest.is_empty() { failed } else { &[] };
    let unknown = u32::try_from(before - failed.len()).unwrap_or(u32::MAX);
    Attempts { failed, unknown, used: roster.id_at(observed), stale }
}
