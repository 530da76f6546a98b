//! The prefix index keeps to its memory, however many prompts it sees.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use isocost_core::marks::Marks;
use isocost_core::prefix_index::PrefixIndex;
use isocost_core::profile::{Api, Scanner, DEFAULT_COEFFICIENTS};
use isocost_core::Rng;

/// Counts the bytes that are allocated; this file has one test, so that they are all its own.
struct Counting;

static LIVE_BYTES: AtomicUsize = AtomicUsize::new(0);
static PEAK_BYTES: AtomicUsize = AtomicUsize::new(0);

unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let live = LIVE_BYTES.fetch_add(layout.size(), Relaxed) + layout.size();
        PEAK_BYTES.fetch_max(live, Relaxed);
        System.alloc(layout)
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        LIVE_BYTES.fetch_sub(layout.size(), Relaxed);
        System.dealloc(block, layout);
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const PREFIXES: u32 = 10_000_000;
const SLOTS: u32 = 1024;

fn marks(number: u32) -> Marks {
    let text = "x".repeat(3000);
    let body = format!(r#"{{"messages":[{{"role":"user","content":"{number} {text}"}}]}}"#);
    let mut scanner = Scanner::new(Api::ChatCompletions);
    scanner.feed(body.as_bytes());
    Marks::new(&scanner.finish(), b"m", &DEFAULT_COEFFICIENTS)
}

#[test]
fn ten_million_prefixes_take_no_more_memory_than_one() {
    let before = LIVE_BYTES.load(Relaxed);
    let mut index = PrefixIndex::new();
    index.insert_hash(1, SLOTS - 1);
    let live = LIVE_BYTES.load(Relaxed);
    assert!((1 << 20..(1 << 20) + (1 << 14)).contains(&(live - before)), "{}", live - before);

    let observed: Vec<(u32, Marks)> = (0..1000).map(|number| (number % 7, marks(number))).collect();
    let with_marks = LIVE_BYTES.load(Relaxed);
    PEAK_BYTES.store(with_marks, Relaxed);
    let mut rng = Rng::with_seed(7);
    for number in 0..PREFIXES {
        index.insert_hash(rng.u64(..), 7 + number % (SLOTS - 7));
        if number % (PREFIXES / 1000) == 0 {
            let (slot, marks) = &observed[(number / (PREFIXES / 1000)) as usize];
            index.insert(marks, *slot, 1000);
        }
    }
    assert_eq!(PEAK_BYTES.load(Relaxed), with_marks);

    // What is still known is right, the latest is known, and what was never seen is not.
    let mut known = 0;
    for (slot, marks) in &observed {
        let found = index.find(marks, &|_| 0);
        assert!(found.all().iter().all(|held| held.slot == *slot));
        known += found.all().len();
    }
    assert!((1..100).contains(&known), "{known}");
    assert_eq!(index.find(&observed[999].1, &|_| 0).all().len(), 1);
    for number in 1000..2000 {
        assert!(index.find(&marks(number), &|_| 0).all().is_empty());
    }

    index.remap(&|slot| Some(slot / 2));
    drop(observed);
    assert!(LIVE_BYTES.load(Relaxed) <= live);
}
