//! Whole numbers in text. The standard parser would let a plus sign and leading zeros pass.

/// The number, if these are its plain decimal digits and it is at most `highest`.
pub(crate) fn whole_number(digits: &[u8], highest: u64) -> Option<u64> {
    if digits.is_empty() || (digits.len() > 1 && digits.starts_with(b"0")) {
        return None;
    }
    let mut number: u64 = 0;
    for digit in digits {
        let digit = digit.wrapping_sub(b'0');
        number = number.checked_mul(10)?.checked_add(digit.into())?;
        if digit > 9 || number > highest {
            return None;
        }
    }
    Some(number)
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
