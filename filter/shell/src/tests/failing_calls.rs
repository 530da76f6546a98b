//! Whatever host call fails, and however: requests go on, at worst by the fallback policy, the log
//! says which call it was, and once it works again so does all that hung on it.

use std::collections::BTreeSet;

use isocost_core::lease::Lease;

use super::envoy::{number, reported, run, set_fate, Envoy, Reported, Routed, NODES};
use super::fake::{world, BAD_ARGUMENT, INTERNAL_FAILURE, NOT_FOUND, OK, PARSE_FAILURE};
use super::is_handed_on;
use crate::shared::LEASE;

/// Where a request goes while a call fails.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Then {
    /// To a node that was picked.
    Picked,
    /// Where Envoy's fallback policy sends it.
    Fallback,
}
use Then::{Fallback, Picked};

/// By call: where requests go if it has failed since the VM began, and if it fails in service, once
/// the table is too old.
const CALLS: [(&str, Then, Then); 23] = [
    ("clock_time_get", Fallback, Fallback),
    ("define_metric", Picked, Picked),
    ("dequeue_shared_queue", Picked, Picked),
    ("enqueue_shared_queue", Picked, Picked),
    // The configuration, later the tables.
    ("get_buffer_bytes", Fallback, Fallback),
    // How far the two clocks are apart is known by then.
    ("get_current_time", Fallback, Picked),
    ("get_header_map_pairs", Picked, Picked),
    ("get_property", Picked, Picked),
    ("get_shared_data", Fallback, Fallback),
    ("grpc_cancel", Picked, Picked),
    ("grpc_send", Fallback, Fallback),
    // The stream is open by then.
    ("grpc_stream", Fallback, Picked),
    ("increment_metric", Picked, Picked),
    ("log", Picked, Picked),
    ("random_get", Picked, Picked),
    ("record_metric", Picked, Picked),
    ("register_shared_queue", Picked, Picked),
    ("remove_header_map_value", Picked, Picked),
    ("replace_header_map_value", Fallback, Fallback),
    ("resolve_shared_queue", Picked, Picked),
    ("set_property", Picked, Picked),
    ("set_shared_data", Fallback, Fallback),
    // The filter ticks by then.
    ("set_tick_period", Fallback, Picked),
];
/// The SDK's own, about which the filter can do nothing.
const SDKS_OWN: &str = "set_effective_context";
const STATUSES: [u32; 4] = [BAD_ARGUMENT, NOT_FOUND, PARSE_FAILURE, INTERNAL_FAILURE];

/// 2 s: a VM that serves takes a lease that nobody wants.
const SHORT: u64 = 100;
/// 6 s: a table that was fresh is too old behind it.
const LONG: u64 = 300;

/// Is there an answer of that status that says only that something is not there?
fn is_usual(call: &str, status: u32) -> bool {
    status == NOT_FOUND
        && ["get_property", "get_shared_data", "resolve_shared_queue"].contains(&call)
}

fn fails(call: &'static str, status: u32) {
    set_fate(move |name| if name == call { status } else { OK });
}

/// Until the first table is there, then with it, then under a second configuration, until the end.
fn whole_life(envoy: &mut Envoy) -> [Routed; 3] {
    assert!(envoy.configure(b""));
    let before = envoy.request();
    envoy.ticks(SHORT);
    let with_table = envoy.request();
    envoy.ticks(SHORT);
    assert!(envoy.configure(br#"{"policy": "min_entropy"}"#));
    envoy.ticks(SHORT);
    let configured_anew = envoy.request();
    envoy.ticks(SHORT);
    envoy.close_streams();
    for root in envoy.roots.clone() {
        envoy.remove_root(root);
    }
    [before, with_table, configured_anew]
}

fn require(then: Then, routed: &Routed, call: &str) {
    let reason = routed.decision.as_deref().unwrap_or("");
    match (then, &routed.destination) {
        (Picked, Some(list)) => {
            assert!(list.split(',').all(|node| NODES.contains(&node)));
            // Where the decision cannot be noted it is not.
            assert!(reason.contains("reason=picked") || call == "set_property", "{routed:?}");
        }
        (Fallback, None) => assert!(!reason.contains("picked"), "{routed:?}"),
        _ => panic!("{then:?}: {routed:?}"),
    }
}

fn require_logged(call: &str, status: u32) {
    let line = format!("host call {call}: status {status}, failures so far: 1");
    let (told, called) = world(|world| (world.log.contains(&line), world.calls.contains_key(call)));
    // Of a log that fails nothing can be told.
    assert_eq!(told, called && call != "log" && !is_usual(call, status));
}

fn each_failure(life: impl Fn(Envoy, &'static str, u32, Then, Then) + Copy + Send + 'static) {
    for (call, from_the_start, in_service) in CALLS {
        for status in STATUSES.into_iter().filter(|status| is_handed_on(call, *status)) {
            let name = format!("{call} status {status}");
            run(name.clone(), move |envoy| life(envoy, call, status, from_the_start, in_service))
                .unwrap_or_else(|_| panic!("{name}"));
        }
    }
}

#[test]
fn the_filter_makes_these_calls_and_no_others() {
    let made = run("healthy".into(), |mut envoy| {
        let [before, with_table, configured_anew] = whole_life(&mut envoy);
        require(Fallback, &before, "");
        require(Picked, &with_table, "");
        require(Picked, &configured_anew, "");
        assert!(configured_anew.decision.unwrap().contains("policy=min_entropy"));
        assert!(!world(|world| world.log.iter().any(|line| line.contains("host call"))));
        world(|world| world.calls.keys().copied().collect::<BTreeSet<_>>())
    });
    let trap = cfg!(feature = "test-trap").then_some("get_header_map_value");
    let known = CALLS.map(|(call, ..)| call).into_iter().chain([SDKS_OWN]).chain(trap);
    assert_eq!(made.unwrap(), known.collect());
}

#[test]
fn a_call_that_has_failed_since_the_beginning_costs_no_request() {
    each_failure(|mut envoy, call, status, from_the_start, _| {
        fails(call, status);
        let [before, with_table, configured_anew] = whole_life(&mut envoy);
        require(Fallback, &before, call);
        require(from_the_start, &with_table, call);
        require(from_the_start, &configured_anew, call);
        require_logged(call, status);
    });
}

#[test]
fn a_call_that_fails_in_service_costs_no_request_and_nothing_once_it_works_again() {
    each_failure(|mut envoy, call, status, _, in_service| {
        assert!(envoy.configure(b""));
        envoy.ticks(SHORT);
        let (open, _) = envoy.begin();
        envoy.ticks(SHORT);
        let calls = world(|world| std::mem::take(&mut world.calls));
        assert!(calls.len() > CALLS.len() / 2);
        fails(call, status);
        envoy.request();
        envoy.ticks(LONG);
        require(in_service, &envoy.request(), call);
        envoy.respond(open, NODES[0], false);
        envoy.body(open, false);
        require_logged(call, status);

        set_fate(|_| OK);
        envoy.ticks(LONG);
        require(Picked, &envoy.request(), "");
        envoy.end(open);
        envoy.ticks(SHORT);
        let report = Reported { open: 0, workers_live: 1, workers_expected: 1 };
        assert_eq!(reported(), Some(report));
    });
}

#[test]
fn a_lease_that_cannot_be_read_is_left_to_its_holder() {
    let life = |mut envoy: Envoy| {
        let held = Lease { holder: 1, heartbeat_ms: 0, serves: false }.encode().to_vec();
        world(|world| world.shared.insert(LEASE.to_vec(), (held.clone(), 1)));
        fails("get_shared_data", INTERNAL_FAILURE);
        assert!(envoy.configure(b""));
        envoy.ticks(LONG);
        assert_eq!(world(|world| world.shared[LEASE].clone()), (held, 1));
        set_fate(|_| OK);
        envoy.ticks(SHORT);
        assert_ne!(world(|world| world.shared[LEASE].1), 1);
    };
    run("lease".into(), life).unwrap();
}

#[test]
fn a_vm_that_is_unloaded_says_so_in_its_last_batch() {
    let life = |mut envoy: Envoy| {
        assert!(envoy.configure(b""));
        assert!(envoy.configure(b""));
        envoy.ticks(SHORT);
        envoy.request();
        let [first, second] = envoy.roots[..] else { panic!("{:?}", envoy.roots) };
        envoy.remove_root(first);
        assert_eq!(queued(), 0);
        envoy.remove_root(second);
        assert_eq!(queued(), 1);
    };
    run("unloaded".into(), life).unwrap();
}

/// Last batches that wait for the feed.
fn queued() -> usize {
    let batches = world(|world| world.queue.clone().unwrap());
    batches.iter().filter(|batch| number(batch, 13) == 1).count()
}

#[test]
fn a_call_that_fails_each_time_is_told_ever_more_rarely() {
    let told = run("rarely".into(), |mut envoy| {
        assert!(envoy.configure(b""));
        fails("set_property", INTERNAL_FAILURE);
        for _ in 0..1_000 {
            envoy.request();
        }
        world(|world| world.log.iter().filter(|line| line.contains("set_property")).count())
    });
    assert_eq!(told.unwrap(), 10); // 1, 2, 4 ... 512
}

#[test]
fn a_bad_configuration_is_refused_and_one_that_cannot_be_read_is_not() {
    let life = |mut envoy: Envoy| {
        assert!(!envoy.configure(b"{\"policy\": \"round_robin\"}"));
        fails("get_buffer_bytes", INTERNAL_FAILURE);
        assert!(envoy.configure(b"{\"policy\": \"min_entropy\"}"));
        let (_, routed) = envoy.begin();
        assert!(routed.decision.unwrap().starts_with("policy=unknown reason=host_failure"));
    };
    run("refused".into(), life).unwrap();
}
