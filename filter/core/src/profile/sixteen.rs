//! Sixteen bytes of text, looked at all at once. In Envoy by its wasm engine's SIMD, elsewhere byte
//! by byte.

pub(super) use bytes::{Flags, Sixteen, Tally};

/// So many times a tally can be added to.
pub(super) const MAX_TALLY: usize = 255;

impl Sixteen {
    /// The first sixteen of these bytes.
    /// The first sixteen of these bytes, of which there are so many.
    #[inline(always)]
    pub fn load(bytes: &[u8]) -> Sixteen {
        Sixteen::of(u128::from_le_bytes(*bytes.first_chunk().unwrap_or(&[0; 16])))
    }

    /// Those that a JSON string does not have as they are.
    #[inline(always)]
    pub fn ends_of_text(self) -> Flags {
        let controls = self.signed_below(b' ').and_not(self.not_ascii());
        controls.or(self.equal_to(b'"')).or(self.equal_to(b'\\'))
    }

    #[inline(always)]
    pub fn letters(self) -> Flags {
        self.with_bits(0x20).within(b'a', b'z')
    }

    #[inline(always)]
    pub fn digits(self) -> Flags {
        self.within(b'0', b'9')
    }

    /// Spaces and control characters, and what is not ASCII.
    #[inline(always)]
    pub fn blanks_and_not_ascii(self) -> Flags {
        self.signed_below(b' ' + 1)
    }

    /// What begins a character from U+3000 to U+FFFF.
    #[inline(always)]
    pub fn cjk_leads(self) -> Flags {
        self.within(0xe3, 0xef)
    }
}

#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
mod bytes {
    use core::arch::wasm32::{
        i8x16_bitmask, i8x16_lt, i8x16_splat, u16x8_extadd_pairwise_u8x16,
        u32x4_extadd_pairwise_u16x8, u32x4_extract_lane, u64x2, u64x2_add, u64x2_shr, u8x16,
        u8x16_eq, u8x16_splat, u8x16_sub, v128, v128_andnot, v128_or,
    };

    #[derive(Clone, Copy)]
    pub struct Sixteen(v128);

    /// Some of the sixteen, by their top bits.
    #[derive(Clone, Copy)]
    pub struct Flags(v128);

    /// How many flags there were in each of the sixteen places.
    #[derive(Clone, Copy)]
    pub struct Tally(v128);

    impl Default for Tally {
        fn default() -> Self {
            Tally(Flags::NONE.0)
        }
    }

    impl Sixteen {
        /// The first byte is the lowest.
        #[inline(always)]
        pub fn of(bytes: u128) -> Sixteen {
            Sixteen(u64x2(bytes as u64, (bytes >> 64) as u64))
        }

        #[inline(always)]
        pub fn not_ascii(self) -> Flags {
            Flags(self.0)
        }

        #[inline(always)]
        pub(super) fn equal_to(self, byte: u8) -> Flags {
            Flags(u8x16_eq(self.0, u8x16_splat(byte)))
        }

        /// A signed comparison is the only one that is a single instruction.
        #[inline(always)]
        pub(super) fn signed_below(self, end: u8) -> Flags {
            Flags(i8x16_lt(self.0, u8x16_splat(end)))
        }

        #[inline(always)]
        pub(super) fn within(self, first: u8, last: u8) -> Flags {
            let least = u8x16_sub(self.0, u8x16_splat(first.wrapping_sub(0x80)));
            let end = i8x16_splat((last - first + 1).wrapping_sub(0x80) as i8);
            Flags(i8x16_lt(least, end))
        }

        #[inline(always)]
        pub(super) fn with_bits(self, bits: u8) -> Sixteen {
            Sixteen(v128_or(self.0, u8x16_splat(bits)))
        }
    }

    impl Flags {
        pub const NONE: Flags = Flags(u8x16(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0));

        #[inline(always)]
        pub fn or(self, other: Flags) -> Flags {
            Flags(v128_or(self.0, other.0))
        }

        #[inline(always)]
        pub fn and_not(self, other: Flags) -> Flags {
            Flags(v128_andnot(self.0, other.0))
        }

        /// One bit each, the first byte's lowest.
        #[inline(always)]
        pub fn bits(self) -> u32 {
            i8x16_bitmask(self.0).into()
        }
    }

    impl Tally {
        /// Not of flags by `not_ascii`, of which only the top bits are right.
        #[inline(always)]
        pub fn add(&mut self, flags: Flags) {
            // A byte of ones is minus one.
            self.0 = u8x16_sub(self.0, flags.0);
        }

        pub fn total(self) -> u32 {
            let fours = u32x4_extadd_pairwise_u16x8(u16x8_extadd_pairwise_u8x16(self.0));
            let eights = u64x2_add(fours, u64x2_shr(fours, 32));
            u32x4_extract_lane::<0>(eights) + u32x4_extract_lane::<2>(eights)
        }
    }
}

#[cfg(not(all(target_arch = "wasm32", target_feature = "simd128")))]
mod bytes {
    #[derive(Clone, Copy)]
    pub struct Sixteen([u8; 16]);

    /// Some of the sixteen, one bit each.
    #[derive(Clone, Copy)]
    pub struct Flags(u32);

    /// How many flags there were.
    #[derive(Clone, Copy, Default)]
    pub struct Tally(u32);

    impl Sixteen {
        /// The first byte is the lowest.
        pub fn of(bytes: u128) -> Sixteen {
            Sixteen(bytes.to_le_bytes())
        }

        pub fn not_ascii(self) -> Flags {
            self.those(|byte| !byte.is_ascii())
        }

        pub(super) fn equal_to(self, byte: u8) -> Flags {
            self.those(|other| other == byte)
        }

        pub(super) fn signed_below(self, end: u8) -> Flags {
            self.those(|byte| byte < end || !byte.is_ascii())
        }

        pub(super) fn within(self, first: u8, last: u8) -> Flags {
            self.those(|byte| (first..=last).contains(&byte))
        }

        pub(super) fn with_bits(self, bits: u8) -> Sixteen {
            Sixteen(self.0.map(|byte| byte | bits))
        }

        fn those(self, is_one: impl Fn(u8) -> bool) -> Flags {
            let add = |bits: u32, &byte: &u8| bits << 1 | u32::from(is_one(byte));
            Flags(self.0.iter().rev().fold(0, add))
        }
    }

    impl Flags {
        pub const NONE: Flags = Flags(0);

        pub fn or(self, other: Flags) -> Flags {
            Flags(self.0 | other.0)
        }

        pub fn and_not(self, other: Flags) -> Flags {
            Flags(self.0 & !other.0)
        }

        /// The first byte's is the lowest.
        pub fn bits(self) -> u32 {
            self.0
        }
    }

    impl Tally {
        pub fn add(&mut self, flags: Flags) {
            self.0 += flags.0.count_ones();
        }

        pub fn total(self) -> u32 {
            self.0
        }
    }
}
