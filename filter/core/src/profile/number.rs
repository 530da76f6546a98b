//! A JSON number as it arrives: is it one, and which whole number is it?

/// What of the number was read last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Part {
    #[default]
    Start,
    Minus,
    Zero,
    Whole,
    Point,
    Fraction,
    E,
    Sign,
    Exponent,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Number {
    part: Part,
    negative: bool,
    /// All digits before the exponent as one number; None: more than it can hold.
    digits: Option<u64>,
    fraction_digits: u32,
    exponent: u32,
    exponent_negative: bool,
}

impl Number {
    pub fn new() -> Number {
        Number { digits: Some(0), ..Number::default() }
    }

    /// Takes the next character; false if no number goes on so.
    pub fn push(&mut self, byte: u8) -> bool {
        let Some(next) = self.after(byte) else { return false };
        let digit = u32::from(byte.wrapping_sub(b'0'));
        match next {
            Part::Minus => self.negative = true,
            Part::Zero | Part::Whole | Part::Fraction => {
                let room_for_one = |digits: &u64| *digits < u64::MAX / 10;
                let digits = self.digits.filter(room_for_one);
                self.digits = digits.map(|digits| digits * 10 + u64::from(digit));
                if next == Part::Fraction {
                    self.fraction_digits = self.fraction_digits.saturating_add(1);
                }
            }
            Part::Sign => self.exponent_negative = byte == b'-',
            Part::Exponent => {
                self.exponent = self.exponent.saturating_mul(10).saturating_add(digit);
            }
            Part::Start | Part::Point | Part::E => {}
        }
        self.part = next;
        true
    }

    fn after(&self, byte: u8) -> Option<Part> {
        Some(match (self.part, byte) {
            (Part::Start, b'-') => Part::Minus,
            (Part::Start | Part::Minus, b'0') => Part::Zero,
            (Part::Start | Part::Minus, b'1'..=b'9') | (Part::Whole, b'0'..=b'9') => Part::Whole,
            (Part::Zero | Part::Whole, b'.') => Part::Point,
            (Part::Point | Part::Fraction, b'0'..=b'9') => Part::Fraction,
            (Part::Zero | Part::Whole | Part::Fraction, b'e' | b'E') => Part::E,
            (Part::E, b'+' | b'-') => Part::Sign,
            (Part::E | Part::Sign | Part::Exponent, b'0'..=b'9') => Part::Exponent,
            _ => return None,
        })
    }

    /// May it end here?
    pub fn is_complete(&self) -> bool {
        matches!(self.part, Part::Zero | Part::Whole | Part::Fraction | Part::Exponent)
    }

    /// The value, if it is a whole number from 0 on that fits: 1e3 and 5.0 are, 1.5 and -1 are
    /// not.
    pub fn whole(&self) -> Option<u32> {
        let digits = self.digits?;
        if digits == 0 {
            return Some(0);
        }
        let exponent = i64::from(self.exponent) * if self.exponent_negative { -1 } else { 1 };
        let scale = exponent - i64::from(self.fraction_digits);
        // It is not zero: it leaves the range, or its zeros end, before many steps are made.
        let mut value = digits;
        for _ in scale..0 {
            value = (value % 10 == 0).then_some(value / 10)?;
        }
        for _ in 0..scale {
            value = u64::from(u32::try_from(value).ok()?) * 10;
        }
        u32::try_from(value).ok().filter(|_| !self.negative)
    }
}
