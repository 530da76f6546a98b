//! What it costs to look for a prompt's beginning, and to note where it went.

use std::hint::black_box;

use criterion::{criterion_group, criterion_main, Criterion};
use isocost_core::marks::Marks;
use isocost_core::prefix_index::PrefixIndex;
use isocost_core::profile::{Api, Profile, Scanner, DEFAULT_COEFFICIENTS};
use isocost_core::Rng;

/// A prompt of 256 KiB: 40 blocks and the end of its first turn.
fn profile(first: &str) -> Profile {
    let text = "x".repeat(256 * 1024);
    let body = format!(r#"{{"messages":[{{"role":"user","content":"{first}{text}"}}]}}"#);
    let mut scanner = Scanner::new(Api::ChatCompletions);
    scanner.feed(body.as_bytes());
    scanner.finish()
}

fn prefix_index(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("prefix_index");
    let known = profile("a");
    let new_marks = |profile: &Profile| Marks::new(profile, b"model", &DEFAULT_COEFFICIENTS);
    let (hit, miss) = (new_marks(&known), new_marks(&profile("b")));
    let mut index = PrefixIndex::new();
    let mut rng = Rng::with_seed(1);
    for slot in 0..1_000_000 {
        index.insert_hash(rng.u64(..), slot % 1024);
    }
    index.insert(&hit, 1, 65_536);
    group.bench_function("marks/40", |bencher| {
        bencher.iter(|| new_marks(black_box(&known)));
    });
    group.bench_function("find/hit", |bencher| {
        bencher.iter(|| index.find(black_box(&hit), &|_| 1_000_000));
    });
    group.bench_function("find/miss", |bencher| {
        bencher.iter(|| index.find(black_box(&miss), &|_| 1_000_000));
    });
    group.bench_function("insert/40", |bencher| {
        bencher.iter(|| index.insert(black_box(&hit), rng.u32(..1024), 10));
    });
    group.bench_function("insert/new", |bencher| {
        bencher.iter(|| index.insert_hash(rng.u64(..), 3));
    });
    group.bench_function("remap", |bencher| {
        bencher.iter(|| index.remap(&|slot| Some(black_box(slot))));
    });
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .warm_up_time(std::time::Duration::from_millis(300))
        .measurement_time(std::time::Duration::from_secs(1));
    targets = prefix_index
}
criterion_main!(benches);
