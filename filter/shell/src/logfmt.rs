//! The decision as the access log shows it, without std's formatting machinery (size).
use isocost_core::pick::{Policy, Reason};

/// Appends `policy=weighted_random reason=picked table=1790000000123 age_ms=83`.
pub fn write_decision(
    policy: Policy,
    reason: Reason,
    table_version: u64,
    age_ms: u64,
    out: &mut Vec<u8>,
) {
    out.extend_from_slice(b"policy=");
    out.extend_from_slice(policy.name().as_bytes());
    out.extend_from_slice(b" reason=");
    out.extend_from_slice(reason.name().as_bytes());
    out.extend_from_slice(b" table=");
    write_decimal(table_version, out);
    out.extend_from_slice(b" age_ms=");
    write_decimal(age_ms, out);
}

fn write_decimal(mut value: u64, out: &mut Vec<u8>) {
    let start = out.len();
    loop {
        out.push(b'0' + (value % 10) as u8);
        value /= 10;
        if value == 0 {
            break;
        }
    }
    if let Some(digits) = out.get_mut(start..) {
        digits.reverse();
    }
}
