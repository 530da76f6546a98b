//! What a node would need for a request, in predicted seconds; all constants of the prediction.

use super::Query;
use crate::fleet::Row;
use crate::load::Projected;
use crate::number::larger;

/// What a full KV cache costs, s: engines slow down as it fills. In simulation (tests/simulation)
/// times to the first token are a fifth longer without it, and answers last longer below 0.5.
const FULL_KV_S: f32 = 0.5;
/// From here on requests wait for room, or lose theirs and begin again ...
const KV_LIMIT: f32 = 0.9;
/// ... which costs so much for each part of the cache beyond it, s.
const BEYOND_KV_LIMIT_S: f32 = 10.0;

/// Document A's entropy of a gigabyte of KV cache.
const ENTROPY_PER_GB: f32 = 0.3;
/// Entropy of a request besides its KV cache: its age and its traffic.
const ENTROPY_PER_REQUEST: f32 = 0.1;
/// Where the model's is not known: 32 layers of 8 heads of 128 at 16 bits, as 8B models have.
const KV_BYTES_PER_TOKEN: u64 = 131_072;

/// The time to the first token, and what the request would slow down.
pub(super) fn predicted_s(row: &Row, now: &Projected, uncached: f32, tokens: f32) -> f32 {
    let waiting = (now.pending_tokens + uncached) * row.token_s;
    let time = waiting + now.open * row.request_s + row.extra_s;
    if row.kv_capacity_tokens <= 0.0 {
        return time;
    }
    let used = (now.kv_tokens + tokens) / row.kv_capacity_tokens;
    time + FULL_KV_S * used + BEYOND_KV_LIMIT_S * larger(used - KV_LIMIT, 0.0)
}

/// What a request like this adds to the entropy of a node of capacity 1.
pub(super) fn request_entropy(query: &Query, kv_bytes_per_token: u64) -> f32 {
    let bytes = if kv_bytes_per_token > 0 { kv_bytes_per_token } else { KV_BYTES_PER_TOKEN };
    let gb = query.tokens() as f32 * bytes as f32 / 1e9;
    ENTROPY_PER_REQUEST + ENTROPY_PER_GB * gb
}
