//! The ledger agrees with the plainest one, whatever the order of events.

use std::collections::BTreeMap;

use isocost_core::ledger::{Ending, Ledger, Outcome, Prefill};
use isocost_core::stream::Finish;
use isocost_core::work::Work;
use proptest::prelude::*;

use crate::fixtures::{property, unmeasured};
use crate::ledger::*;

const NODES: [u64; 5] = [1, 2, 7, 1 << 63, u64::MAX];

#[derive(Clone, Debug)]
enum Event {
    Open(u64, Work),
    FirstToken(prop::sample::Index, Option<Prefill>),
    /// Moves or ends the open request of this index, if there are any.
    Reassign(prop::sample::Index, u64),
    Close(prop::sample::Index, Outcome),
    FailedAttempt(u64),
    UnknownAttempts(u64, u32),
    Batch,
}

const ENDINGS: [(Ending, u32); 6] = [
    (Ending::Succeeded, SUCCEEDED),
    (Ending::ClientError, CLIENT_ERRORS),
    (Ending::RateLimited, RATE_LIMITED),
    (Ending::ServerError, SERVER_ERRORS),
    (Ending::Reset, RESETS),
    (Ending::ClientAbort, CLIENT_ABORTS),
];

fn event() -> impl Strategy<Value = Event> {
    let node = || prop::sample::select(&NODES[..]);
    let time = || prop::option::of(0u64..10_000_000);
    let finish = prop::option::of(prop::sample::select(vec![
        Finish::Stop,
        Finish::Length,
        Finish::Tool,
        Finish::Other,
    ]));
    let outcome = (0..ENDINGS.len(), time(), time(), time(), 0u64..50, time(), finish).prop_map(
        |(ending, first_byte_us, tpot_us, total_us, chunks, output_tokens, finish)| Outcome {
            ending: ENDINGS[ending].0,
            first_byte_us,
            tpot_us,
            total_us,
            chunks,
            output_tokens,
            finish,
        },
    );
    let index = any::<prop::sample::Index>;
    let tokens = || prop_oneof![3 => 0u32..200_000, 1 => Just(u32::MAX)];
    let work = (tokens(), tokens())
        .prop_map(|(prompt_tokens, kv_tokens)| Work { prompt_tokens, kv_tokens });
    let prefill =
        prop::option::of((0u32..2_000_000, 0u64..30_000_000).prop_map(
            |(pending_tokens, first_token_us)| Prefill { pending_tokens, first_token_us },
        ));
    prop_oneof![
        4 => (node(), work).prop_map(|(node, work)| Event::Open(node, work)),
        3 => (index(), prefill).prop_map(|(i, prefill)| Event::FirstToken(i, prefill)),
        1 => (index(), node()).prop_map(|(i, to)| Event::Reassign(i, to)),
        3 => (index(), outcome).prop_map(|(i, o)| Event::Close(i, o)),
        1 => node().prop_map(Event::FailedAttempt),
        1 => (node(), 1u32..4).prop_map(|(node, count)| Event::UnknownAttempts(node, count)),
        1 => Just(Event::Batch),
    ]
}

#[derive(Clone, Copy)]
struct Open {
    node: u64,
    opened_ms: u64,
    work: Work,
    had_first_token: bool,
}

/// The plainest ledger: a list of open requests, and a map of counters per node.
#[derive(Default)]
struct Model {
    open: Vec<Open>,
    news: BTreeMap<u64, Line>,
}

impl Model {
    fn count(&mut self, node: u64, field: u32, value: u64) {
        if value > 0 {
            *self.news.entry(node).or_default().entry(field).or_default() += value;
        }
    }

    fn batch(&mut self, now_ms: u64) -> BTreeMap<u64, Line> {
        for open in self.open.clone() {
            self.count(open.node, IN_FLIGHT, 1);
            self.count(open.node, AGES, now_ms - open.opened_ms);
            if !open.had_first_token {
                self.count(open.node, PENDING_TOKENS, open.work.prompt_tokens.into());
            }
            self.count(open.node, KV_TOKENS, open.work.kv_tokens.into());
        }
        std::mem::take(&mut self.news)
    }
}

proptest! {
    #![proptest_config(property(1))]

    #[test]
    fn the_ledger_agrees_with_a_plain_model(events in prop::collection::vec(event(), 0..200)) {
        let mut ledger = Ledger::new();
        let mut model = Model::default();
        let mut now_ms = 1_790_000_000_000;
        for event in events.into_iter().chain([Event::Batch]) {
            now_ms += 13;
            match event {
                Event::Open(node, work) => {
                    ledger.open(node, now_ms, work);
                    model.open.push(Open {
                        node,
                        opened_ms: now_ms,
                        work,
                        had_first_token: false,
                    });
                    model.count(node, STARTED, 1);
                }
                Event::FirstToken(index, prefill) if !model.open.is_empty() => {
                    let index = index.index(model.open.len());
                    let Open { node, work, had_first_token, .. } = model.open[index];
                    if had_first_token {
                        continue;
                    }
                    ledger.first_token(node, work, prefill);
                    model.open[index].had_first_token = true;
                    if let Some(Prefill { pending_tokens, first_token_us }) = prefill {
                        let x = u64::from(pending_tokens);
                        let y = first_token_us;
                        for (field, value) in [(PREFILLS, 1), (PREFILL_TOKENS, x), (PREFILL_US, y)] {
                            model.count(node, field, value);
                        }
                    }
                }
                Event::Reassign(index, to) if !model.open.is_empty() => {
                    let index = index.index(model.open.len());
                    let open = model.open[index];
                    // Envoy tries another node before the answer only.
                    if open.had_first_token {
                        continue;
                    }
                    ledger.reassign(open.node, to, open.opened_ms, open.work);
                    model.open[index].node = to;
                    model.count(to, STARTED, u64::from(open.node != to));
                }
                Event::Close(index, outcome) if !model.open.is_empty() => {
                    let index = index.index(model.open.len());
                    let node = model.open[index].node;
                    let open = model.open.remove(index);
                    ledger.close(node, open.opened_ms, open.work, open.had_first_token, &outcome);
                    let (_, field) = ENDINGS.iter().find(|(e, _)| *e == outcome.ending).unwrap();
                    model.count(node, *field, 1);
                    for (count, sum, time) in [
                        (FIRST_BYTES, FIRST_BYTE_US, outcome.first_byte_us),
                        (TPOTS, TPOT_US, outcome.tpot_us),
                        (TOTALS, TOTAL_US, outcome.total_us),
                    ] {
                        model.count(node, count, u64::from(time.is_some()));
                        model.count(node, sum, time.unwrap_or(0));
                    }
                    model.count(node, CHUNKS, outcome.chunks);
                    model.count(node, OUTPUT_TOKENS, outcome.output_tokens.unwrap_or(0));
                    if let Some(finish) = outcome.finish {
                        model.count(node, FINISHES + finish as u32, 1);
                    }
                }
                Event::FirstToken(..) | Event::Reassign(..) | Event::Close(..) => {}
                Event::FailedAttempt(node) => {
                    ledger.failed_attempt(node);
                    model.count(node, FAILED_ATTEMPTS, 1);
                }
                Event::UnknownAttempts(node, count) => {
                    ledger.unknown_attempts(node, count);
                    model.count(node, UNKNOWN_ATTEMPTS, u64::from(count));
                }
                Event::Batch => prop_assert_eq!(batch(&mut ledger, now_ms), model.batch(now_ms)),
            }
            for node in NODES {
                let open = model.open.iter().filter(|open| open.node == node).count();
                prop_assert_eq!(ledger.in_flight(node) as usize, open);
            }
        }
    }

    /// Whatever is called in whatever order: the sums are zero when nothing is open.
    #[test]
    fn nothing_open_means_nothing_pending(
        calls in prop::collection::vec((0u8..4, 1u64..3, 0u32..100), 0..60),
    ) {
        let mut ledger = Ledger::new();
        for (call, node, tokens) in calls {
            let work = Work { prompt_tokens: tokens, kv_tokens: 2 * tokens };
            match call {
                0 => ledger.open(node, 1000, work),
                1 => ledger.first_token(node, work, None),
                2 => ledger.reassign(node, 3 - node, 1000, work),
                _ => ledger.close(node, 1000, work, tokens % 2 == 0, &unmeasured(Ending::Reset)),
            }
            let open = [1, 2].map(|node| ledger.in_flight(node));
            let nodes = batch(&mut ledger, 2000);
            for (node, open) in (1..).zip(open) {
                let line = nodes.get(&node).cloned().unwrap_or_default();
                // Below zero they would be huge.
                let most = u64::from(open) * 200 * 60;
                for field in [PENDING_TOKENS, KV_TOKENS] {
                    prop_assert!(line.get(&field).copied().unwrap_or(0) <= most, "{line:?}");
                }
            }
        }
    }
}
