//! Runs a target on one input after the other until its time is up. Every input comes from a seed,
//! which is told when it fails.

use std::env::var;
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use isocost_core::Rng;

/// For whoever runs the tests without asking for more.
const DEFAULT_S: u64 = 1;
/// More of an input tells nobody anything.
const SHOWN_BYTES: usize = 2_000;

/// Calls `target` with inputs of `make` for ISOCOST_FUZZ_S seconds. The first input is that of
/// ISOCOST_FUZZ_SEED, so that this repeats a failure; each further one has the next seed.
pub fn fuzz(name: &str, make: impl Fn(&mut Rng) -> Vec<u8>, target: impl Fn(&[u8], &mut Rng)) {
    let number = |name| var(name).ok().map(|text| text.parse::<u64>().expect(name));
    let budget = Duration::from_secs(number("ISOCOST_FUZZ_S").unwrap_or(DEFAULT_S));
    let first = number("ISOCOST_FUZZ_SEED").unwrap_or_else(clock_seed);
    println!("{name}: from ISOCOST_FUZZ_SEED={first} for {} s", budget.as_secs());
    let end = Instant::now() + budget;
    let mut inputs = 0;
    while inputs == 0 || Instant::now() < end {
        let seed = first.wrapping_add(inputs);
        let mut rng = Rng::with_seed(seed);
        let input = make(&mut rng);
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| target(&input, &mut rng))) {
            let shown = &input[..input.len().min(SHOWN_BYTES)];
            println!("{name}: failed; repeat with ISOCOST_FUZZ_SEED={seed}");
            println!("{} bytes: {}", input.len(), shown.escape_ascii());
            resume_unwind(panic);
        }
        inputs += 1;
    }
    println!("{name}: {inputs} inputs");
}

fn clock_seed() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos() as u64)
}

/// One of the valid inputs with a few edits: bytes and bits changed, parts removed, doubled or taken
/// from another one, or an end that is missing. `words` are put in where single bytes find nothing.
pub fn mutated(valid: &[&[u8]], words: &[&[u8]], rng: &mut Rng) -> Vec<u8> {
    let pick = |rng: &mut Rng| valid[rng.usize(..valid.len())];
    let mut bytes = pick(rng).to_vec();
    for _ in 0..rng.u32(0..6) {
        if bytes.is_empty() {
            break;
        }
        let at = rng.usize(..bytes.len());
        let end = at + rng.usize(..=(bytes.len() - at).min(64));
        match rng.u32(0..8) {
            0 => bytes[at] = rng.u8(..),
            1 => bytes[at] ^= 1 << rng.u32(0..8),
            2 => drop(bytes.drain(at..end)),
            3 => {
                let part = bytes[at..end].to_vec();
                bytes.splice(at..at, part);
            }
            4 => {
                let other = pick(rng);
                let from = rng.usize(..=other.len());
                let to = from + rng.usize(..=(other.len() - from).min(64));
                bytes.splice(at..at, other[from..to].iter().copied());
            }
            5 if !words.is_empty() => {
                let word = words[rng.usize(..words.len())];
                bytes.splice(at..at, word.iter().copied());
            }
            6 => bytes.truncate(at),
            _ => bytes.insert(at, rng.u8(..)),
        }
    }
    bytes
}

/// Gives `feed` the bytes in chunks of random sizes: single bytes, a few, or many.
pub fn in_chunks(bytes: &[u8], rng: &mut Rng, mut feed: impl FnMut(&[u8])) {
    let most = [1, 7, 1_000, bytes.len().max(1)][rng.usize(0..4)];
    let mut rest = bytes;
    while !rest.is_empty() {
        let (chunk, tail) = rest.split_at(rng.usize(1..=most).min(rest.len()));
        feed(chunk);
        rest = tail;
    }
}
