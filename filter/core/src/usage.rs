//! Finds the output token count in an answer while it passes: the last `"completion_tokens": N` or
//! `"output_tokens": N`. Constant state, any chunking, every byte looked at once.
//!
//! It looks for underscores only, which an event stream has two or three of per chunk, and compares
//! the bytes around each. Inside of a JSON string the key's quotes would be escaped, so text that an
//! engine generates cannot pose as usage.

const PREFIX: &[u8; 11] = b"\"completion";
/// The other prefix, aligned to the end of the first.
const OTHER_PREFIX: &[u8] = b"\"output";
const SUFFIX: &[u8; 7] = b"tokens\"";
/// More digits than any token count has: no number of ours.
const MAX_DIGITS: u8 = 10;

/// What is expected next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// An underscore behind a prefix.
    #[default]
    Search,
    /// The rest of SUFFIX from this offset on.
    Suffix(u8),
    Colon,
    /// The number, of which so many digits were seen.
    Digits(u8),
}

/// Feed it the response body piece by piece.
#[derive(Clone, Copy, Debug, Default)]
pub struct UsageScanner {
    state: State,
    /// The bytes before the next piece, for a prefix that was cut.
    tail: [u8; PREFIX.len()],
    number: u64,
    output_tokens: Option<u64>,
}

impl UsageScanner {
    pub fn new() -> UsageScanner {
        UsageScanner::default()
    }

    pub fn feed(&mut self, piece: &[u8]) {
        let mut at = 0;
        while let Some(&byte) = piece.get(at) {
            if self.state == State::Search {
                let Some(distance) = piece.get(at..).and_then(find_underscore) else { break };
                at += distance;
                if self.prefix_ends_at(piece, at) {
                    self.state = State::Suffix(0);
                }
            } else {
                self.step(byte);
            }
            at += 1;
        }
        let mut tail = [0; PREFIX.len()];
        for (to, from) in tail.iter_mut().zip(self.before(piece, piece.len())) {
            *to = *from;
        }
        self.tail = tail;
    }

    /// The last complete number found.
    pub fn output_tokens(&self) -> Option<u64> {
        self.output_tokens
    }

    /// The PREFIX.len() bytes before `at` in the piece and what came before it.
    fn before<'a>(&'a self, piece: &'a [u8], at: usize) -> impl Iterator<Item = &'a u8> {
        self.tail.iter().chain(piece).skip(at).take(PREFIX.len())
    }

    fn prefix_ends_at(&self, piece: &[u8], at: usize) -> bool {
        self.before(piece, at).eq(PREFIX)
            || self.before(piece, at).skip(PREFIX.len() - OTHER_PREFIX.len()).eq(OTHER_PREFIX)
    }

    /// Goes on if the byte is what is expected, else back to the search. The byte need not be
    /// searched again: an underscore that does not fit here has no prefix before it.
    fn step(&mut self, byte: u8) {
        let blank = matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
        self.state = match self.state {
            State::Suffix(offset) if SUFFIX.get(usize::from(offset)) == Some(&byte) => {
                if usize::from(offset) + 1 < SUFFIX.len() {
                    State::Suffix(offset + 1)
                } else {
                    State::Colon
                }
            }
            State::Colon if byte == b':' => {
                self.number = 0;
                State::Digits(0)
            }
            State::Colon | State::Digits(0) if blank => self.state,
            State::Digits(count) if byte.is_ascii_digit() && count < MAX_DIGITS => {
                self.number = self.number * 10 + u64::from(byte - b'0');
                State::Digits(count + 1)
            }
            // A digit here is one too many; a point or an exponent makes it no count.
            State::Digits(1..) if !matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E') => {
                self.output_tokens = Some(self.number);
                State::Search
            }
            _ => State::Search,
        };
    }
}

/// Where the first underscore is; eight bytes at a time.
fn find_underscore(bytes: &[u8]) -> Option<usize> {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const TOPS: u64 = ONES << 7;
    let mut words = bytes.chunks_exact(8);
    for (index, word) in words.by_ref().enumerate() {
        let word = u64::from_le_bytes(word.try_into().unwrap_or_default());
        // A byte that is zero now was an underscore; the subtraction carries into its top bit.
        let zeroed = word ^ (ONES * b'_' as u64);
        let hits = zeroed.wrapping_sub(ONES) & !zeroed & TOPS;
        if hits != 0 {
            return Some(index * 8 + hits.trailing_zeros() as usize / 8);
        }
    }
    let rest = words.remainder();
    let place = rest.iter().position(|&byte| byte == b'_')?;
    Some(bytes.len() - rest.len() + place)
}
