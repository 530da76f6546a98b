//! The decision as the access log shows it, without std's formatting machinery (size).
use isocost_core::pick::{Policy, Reason};

/// Where a request goes and why.
pub struct Decision {
    /// None: the settings are not known.
    pub policy: Option<Policy>,
    pub reason: Reason,
    /// 0 = no table.
    pub table_version: u64,
    pub age_ms: u64,
}

impl Decision {
    /// Without settings or a table.
    pub fn fallback(reason: Reason) -> Decision {
        Decision { policy: None, reason, table_version: 0, age_ms: 0 }
    }
}

/// Appends `policy=weighted_random reason=picked table=1790000000123 age_ms=83`.
pub fn write_decision(decision: &Decision, out: &mut Vec<u8>) {
    out.extend_from_slice(b"policy=");
    out.extend_from_slice(decision.policy.map_or("unknown", Policy::name).as_bytes());
    out.extend_from_slice(b" reason=");
    out.extend_from_slice(decision.reason.name().as_bytes());
    out.extend_from_slice(b" table=");
    write_decimal(decision.table_version, out);
    out.extend_from_slice(b" age_ms=");
    write_decimal(decision.age_ms, out);
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
