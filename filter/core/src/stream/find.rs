//! The search for the bytes at which the scanner looks closer; eight bytes at a time.

const ONES: u64 = 0x0101_0101_0101_0101;
const TOPS: u64 = ONES << 7;

/// The bytes that are `wanted` with the bits of `ignored` set.
#[derive(Clone, Copy)]
pub(super) struct Stops {
    ignored: u8,
    wanted: u8,
}

impl Stops {
    pub const UNDERSCORE: Stops = Stops { ignored: 0, wanted: b'_' };
    /// `_`, `{`, `[` and DEL.
    pub const UNDERSCORE_OR_BRACE: Stops = Stops { ignored: 0x24, wanted: 0x7f };

    /// Where the first of them is.
    pub fn find(self, bytes: &[u8]) -> Option<usize> {
        let ignored = ONES * u64::from(self.ignored);
        let wanted = ONES * u64::from(self.wanted);
        let mut words = bytes.chunks_exact(8);
        for (index, word) in words.by_ref().enumerate() {
            let word = u64::from_le_bytes(word.try_into().unwrap_or_default());
            // A byte that is zero now is one of them; the subtraction carries into its top bit.
            let zeroed = (word | ignored) ^ wanted;
            let hits = zeroed.wrapping_sub(ONES) & !zeroed & TOPS;
            if hits != 0 {
                return Some(index * 8 + hits.trailing_zeros() as usize / 8);
            }
        }
        let rest = words.remainder();
        let place = rest.iter().position(|&byte| byte | self.ignored == self.wanted)?;
        Some(bytes.len() - rest.len() + place)
    }
}
