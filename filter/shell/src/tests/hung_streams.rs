//! A stream on which the control plane says nothing is opened anew, whatever holds it up.

use super::envoy::{run, stream, Envoy, ADS, REPORTS, TICK_MS};
use super::fake::world;

const HUNG_MS: u64 = 10_000;
const MINUTE: u64 = 60_000 / TICK_MS;

/// The times, from now on, at which the stream was another one.
fn reopenings_ms(envoy: &mut Envoy, ticks: u64) -> Vec<u64> {
    let mut last = stream(ADS);
    let mut times = Vec::new();
    for tick in 1..=ticks {
        envoy.ticks(1);
        let now = stream(ADS);
        if now.is_some() && now != last {
            last = now;
            times.push(tick * TICK_MS);
        }
    }
    times
}

fn require_every_ten_seconds(times: &[u64]) {
    assert_eq!(times.len(), 5, "{times:?}");
    let starts = [0].iter().chain(times);
    for (start, end) in starts.zip(times) {
        let took = end - start;
        // A retry comes after 400 ms at most.
        assert!((HUNG_MS..HUNG_MS + 500).contains(&took), "{times:?}");
    }
}

#[test]
fn a_stream_that_hangs_is_opened_anew_every_ten_seconds_and_nothing_else_is() {
    let life = |mut envoy: Envoy| {
        assert!(envoy.configure(b""));
        envoy.ticks(100);
        envoy.request();
        envoy.ticks(100);
        let reports = stream(REPORTS);
        assert!(reports.is_some());
        envoy.hangs = true;
        require_every_ten_seconds(&reopenings_ms(&mut envoy, MINUTE));
        assert!(envoy.request().decision.unwrap().contains("reason=stale_table"));
        envoy.hangs = false;
        envoy.ticks(20);
        assert!(envoy.request().decision.unwrap().contains("reason=picked"));
        assert_eq!(stream(REPORTS), reports);
    };
    run("hung".into(), life).unwrap();
}

#[test]
fn a_stream_that_was_never_answered_is_opened_anew_every_ten_seconds() {
    let life = |mut envoy: Envoy| {
        envoy.hangs = true;
        assert!(envoy.configure(b""));
        envoy.ticks(2);
        assert!(stream(ADS).is_some());
        require_every_ten_seconds(&reopenings_ms(&mut envoy, MINUTE));
    };
    run("unanswered".into(), life).unwrap();
}

#[test]
fn a_stream_with_tables_is_left_alone() {
    let life = |mut envoy: Envoy| {
        assert!(envoy.configure(b""));
        envoy.ticks(100);
        let cancelled = || world(|world| world.calls.get("grpc_cancel").copied());
        assert_eq!(reopenings_ms(&mut envoy, MINUTE), []);
        assert_eq!(cancelled(), None);
    };
    run("served".into(), life).unwrap();
}
