//! A stream that is lost is tried again soon, not without pause, and not by all Envoys at once.

use super::envoy::{run, set_fate, stream, Envoy, ADS, TICK_MS};
use super::fake::{world, INTERNAL_FAILURE, OK};

const WATCHED_MS: u64 = 10_000;
/// The first retry comes at the next tick and the second after at most 200 ms; from then on 200 to
/// 400 ms lie between them.
const TRIES: std::ops::RangeInclusive<usize> = 26..=51;

fn tries() -> u32 {
    world(|world| world.calls.get("grpc_stream").copied()).unwrap_or(0)
}

/// The times at which a stream was tried, from the first try on. Each stream ends at once.
fn tries_ms(random: u64, refuses: bool) -> Vec<u64> {
    let life = move |mut envoy: Envoy| {
        world(|world| world.random = random);
        if refuses {
            set_fate(|name| if name == "grpc_stream" { INTERNAL_FAILURE } else { OK });
        }
        assert!(envoy.configure(b""));
        while tries() == 0 {
            envoy.ticks(1);
        }
        let mut times = vec![0];
        for tick in 1..=WATCHED_MS / TICK_MS {
            envoy.close_streams();
            let before = tries();
            envoy.ticks(1);
            times.extend((before..tries()).map(|_| tick * TICK_MS));
        }
        times
    };
    run(format!("lost {random}"), life).unwrap()
}

#[test]
fn a_stream_that_ends_at_once_is_tried_again_soon_and_not_without_pause() {
    for refuses in [false, true] {
        let times = tries_ms(1, refuses);
        assert!(TRIES.contains(&times.len()), "{times:?}");
        let pauses: Vec<u64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert_eq!(pauses[0], TICK_MS, "{times:?}");
        assert!((100..=200).contains(&pauses[1]), "{times:?}");
        assert!(pauses[2..].iter().all(|pause| (200..=400).contains(pause)), "{times:?}");
    }
}

#[test]
fn two_envoys_that_lose_the_same_control_plane_do_not_return_together() {
    let (one, other) = (tries_ms(1, false), tries_ms(2, false));
    let together = one.iter().filter(|time| other.contains(time)).count();
    assert!(together < one.len() / 2, "{one:?} {other:?}");
}

#[test]
fn a_stream_that_worked_is_opened_again_at_once() {
    let life = |mut envoy: Envoy| {
        assert!(envoy.configure(b""));
        for _ in 0..100 {
            envoy.ticks(1);
            envoy.close_streams();
        }
        while stream(ADS).is_none() {
            envoy.ticks(1);
        }
        envoy.ticks(5_000 / TICK_MS);
        assert!(stream(ADS).is_some());
        envoy.close_streams();
        envoy.ticks(1);
        assert!(stream(ADS).is_some());
    };
    run("worked".into(), life).unwrap();
}
