//! Whole numbers in text. The standard parser would let a plus sign and leading zeros pass.

/// More digits could not be multiplied without a check.
const MAX_DIGITS: usize = 18;

/// The number, if these are its plain decimal digits and it is at most `highest`, which is one of
/// MAX_DIGITS itself.
pub(crate) fn whole_number(digits: &[u8], highest: u64) -> Option<u64> {
    let is_padded = digits.len() > 1 && digits.starts_with(b"0");
    if digits.is_empty() || digits.len() > MAX_DIGITS || is_padded {
        return None;
    }
    let mut number: u64 = 0;
    for digit in digits {
        let digit = digit.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        number = number * 10 + u64::from(digit);
    }
    (number <= highest).then_some(number)
}

/// As f32::max, but a single instruction instead of a call: a number where `one` is none.
#[inline(always)]
pub(crate) fn larger(one: f32, other: f32) -> f32 {
    if one >= other {
        one
    } else {
        other
    }
}
