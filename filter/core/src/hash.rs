//! Hashes that need not be cryptographic.

/// Every bit of the result depends on every bit of the number (splitmix64).
pub(crate) fn mix(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

/// The hash of a name (FNV-1a, mixed).
pub(crate) fn name_hash(name: &[u8]) -> u64 {
    let add = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    mix(name.iter().fold(0xcbf2_9ce4_8422_2325, add))
}
