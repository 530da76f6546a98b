//! The decision as the access log shows it, without std's formatting machinery (size).
use isocost_core::pick::Policy;

use crate::choice::Decision;

/// Appends `policy=equal_cost reason=picked table=1790000000123 age_ms=83 body_bytes=4211
/// prompt_tokens=1020 output_tokens=256`, on one line.
pub fn write_decision(decision: &Decision, out: &mut Vec<u8>) {
    out.extend_from_slice(b"policy=");
    out.extend_from_slice(decision.policy.map_or("unknown", Policy::name).as_bytes());
    out.extend_from_slice(b" reason=");
    out.extend_from_slice(decision.reason.name().as_bytes());
    let numbers: [(&[u8], u64); 5] = [
        (b" table=", decision.table_version),
        (b" age_ms=", decision.age_ms),
        (b" body_bytes=", decision.body_bytes),
        (b" prompt_tokens=", decision.prompt_tokens.into()),
        (b" output_tokens=", decision.output_tokens.into()),
    ];
    for (name, value) in numbers {
        out.extend_from_slice(name);
        write_decimal(value, out);
    }
}

pub fn write_decimal(mut value: u64, out: &mut Vec<u8>) {
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
