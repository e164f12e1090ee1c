//! The worked examples of the specification (D: dispatch, M: models, C: completions), and what must hold of any batch.

use dumbwaiter_block::{Requests, State, Tenants};
use proptest::prelude::*;

use super::models::Models;
use super::*;

/// A scheduler without a block layer.
struct Bare {
    adios: Adios,
    requests: Requests,
    tenants: Tenants,
    now: Nanos,
    sent: Vec<RequestId>,
}

impl Bare {
    fn fresh(rotational: bool) -> Bare {
        let adios = Adios::new(Setup { rotational, ..Setup::default() });
        let (requests, tenants) = Default::default();
        Bare { adios, requests, tenants, now: Nanos::ZERO, sent: Vec::new() }
    }

    /// With known models: read 100 us + 1 us/KiB, write 200 us + 2 us/KiB, discard 500 us.
    fn loaded(rotational: bool) -> Bare {
        let mut bare = Bare::fresh(rotational);
        bare.adios.stable = true;
        for (name, value) in [
            ("read_base", 100_000),
            ("read_slope", 1000),
            ("write_base", 200_000),
            ("write_slope", 2000),
            ("discard_base", 500_000),
        ] {
            bare.adios.set(&format!("lat_model_{name}"), value);
        }
        bare
    }

    /// `R8` read, `S8` synchronous write, `A8` write, `Y8` synchronous read, `D8` discard, `O8` write-zeroes, `F0` flush;
    /// `+N`: sectors; a `^` before it: at the head.
    fn insert(&mut self, text: &str) {
        for item in text.split_whitespace() {
            let (place, item) = item.strip_prefix('^').map_or((Place::Tail, item), |rest| (Place::Head, rest));
            let (letter, rest) = item.split_at(1);
            let (sector, sectors) = rest.split_once('+').unwrap_or((rest, "8"));
            let (op, flags) = match letter {
                "R" => (Op::Read, Flags::NONE),
                "Y" => (Op::Read, Flags::SYNC),
                "S" => (Op::Write, Flags::SYNC),
                "A" => (Op::Write, Flags::NONE),
                "D" => (Op::Discard, Flags::NONE),
                "O" => (Op::WriteZeroes, Flags::NONE),
                _ => (Op::Flush, Flags::NONE),
            };
            let io =
                Io { op, flags, sector: sector.parse().unwrap(), sectors: sectors.parse().unwrap(), ..Io::default() };
            let mut request = Request::new(io, self.now);
            request.state = State::Queued;
            let id = self.requests.insert(request);
            let ctx = Context { now: self.now, requests: &self.requests, tenants: &self.tenants, busy: false };
            self.adios.insert(id, place, &ctx);
        }
    }

    fn next(&mut self) -> Option<RequestId> {
        let ctx = Context { now: self.now, requests: &self.requests, tenants: &self.tenants, busy: false };
        let next = if self.adios.has_work(0) { self.adios.next(0, &ctx) } else { Next::Empty };
        let Next::Dispatch(id) = next else { return None };
        self.requests[id].issue = self.now;
        self.sent.push(id);
        Some(id)
    }

    /// The sectors of the next `count` requests.
    fn take(&mut self, count: usize) -> Vec<u64> {
        (0..count).map_while(|_| self.next().map(|id| self.requests[id].sector)).collect()
    }

    /// The sectors of all batches until nothing is queued.
    fn batches(&mut self) -> Vec<Vec<u64>> {
        let mut batches: Vec<Vec<u64>> = Vec::new();
        let mut page = usize::MAX;
        while let Some(id) = self.next() {
            if std::mem::replace(&mut page, self.adios.current) != self.adios.current {
                batches.push(Vec::new());
            }
            batches.last_mut().unwrap().push(self.requests[id].sector);
        }
        batches
    }

    /// The oldest `count` requests that were sent complete.
    fn complete(&mut self, count: usize) {
        for id in self.sent.drain(..count).collect::<Vec<_>>() {
            let ctx = Context { now: self.now, requests: &self.requests, tenants: &self.tenants, busy: false };
            self.adios.complete(id, &ctx);
            self.requests.remove(id);
        }
    }
}

#[test]
fn d1_reads_first_and_free() {
    let mut bare = Bare::loaded(false);
    bare.insert("A100 A200 A300 A400 R1 R2 R3 R4");
    assert_eq!(bare.take(9), [1, 2, 3, 4, 100, 200, 300, 400]);
    assert_eq!((bare.adios.bias, bare.adios.in_flight.ns), (0, 1_200_000));
}

#[test]
fn d2_the_window_limits_a_batch_and_its_first_request_always_fits() {
    let mut bare = Bare::loaded(false);
    bare.adios.set("lat_model_read_base", 4_000_000);
    bare.adios.set("lat_model_write_base", 4_000_000);
    bare.insert("R1 R2 R3 R4 R5 R6 A100 A200 A300");
    let batches: [&[u64]; 6] = [&[1, 2, 3, 4], &[5], &[6], &[100], &[200], &[300]];
    assert_eq!(bare.batches(), batches);
}

fn d3() -> Bare {
    let mut bare = Bare::loaded(false);
    bare.insert("A9000");
    bare.now = Nanos::from_ms(9);
    bare.insert("S1000");
    bare.now = Nanos::from_ms(10);
    bare.insert("R1 R2 S2000");
    bare
}

#[test]
fn d3_a_pick_that_passes_an_earlier_deadline_pays() {
    let mut bare = d3();
    assert_eq!(bare.take(9), [1, 2, 1000, 2000, 9000]);
    assert_eq!(bare.adios.bias, 166_408);
    let mut bare = d3();
    for kind in ["read", "write", "discard"] {
        bare.adios.set(&format!("batch_limit_{kind}"), 1);
    }
    let batches: [&[u64]; 3] = [&[1, 1000], &[2000], &[2, 9000]];
    assert_eq!(bare.batches(), batches);
}

#[test]
fn d4_a_type_without_a_model_is_first_in_its_batch() {
    let mut bare = Bare::loaded(false);
    bare.insert("D10 D20 A30 O40 R50 O60 A70");
    let batches: [&[u64]; 4] = [&[50], &[40], &[30, 70, 10, 60], &[20]];
    assert_eq!(bare.batches(), batches);
}

#[test]
fn d5_arrivals_precede_at_head_requests_while_learning() {
    for (head_first, want) in [(0, [100, 1, 200, 50]), (1, [50, 100, 1, 200])] {
        let mut bare = Bare::fresh(false);
        bare.adios.set("head_first", head_first);
        bare.insert("A100 R1 ^R50 A200");
        assert_eq!(bare.take(9), want);
    }
}

#[test]
fn d6_a_flush_is_a_barrier() {
    let mut bare = Bare::loaded(false);
    bare.insert("A100 F1 R2 A200 F3 R4");
    assert_eq!(bare.take(2), [100, 1]);
    assert_eq!(bare.take(9), [2, 200, 3, 4]);
    assert!(!bare.adios.behind_flush);
}

#[test]
fn d7_sectors_on_a_disk() {
    let sweep = |head: u64, requests: &str, sort_long: i128| {
        let mut bare = Bare::loaded(true);
        bare.adios.set("batch_order", 1);
        bare.adios.set("sort_long_lists", sort_long);
        bare.adios.head = head;
        bare.insert(requests);
        bare.take(9)
    };
    assert_eq!(sweep(0, "A500 A100 A900 A300 S700 Y200", 0), [200, 700, 100, 300, 500, 900]);
    assert_eq!(sweep(800, "A500 A100 A900 A300", 0), [900, 500, 300, 100]);
    assert_eq!(sweep(0, "R500 R100 R900 A700", 0), [500, 100, 900, 700], "a single write");
    assert_eq!(sweep(0, "R500 R100 R900 A700", 1), [100, 500, 700, 900]);
}

#[test]
fn d8_deadlines_of_one_quantum_are_equal() {
    let mut bare = Bare::loaded(false);
    bare.insert("A1000+128 A9000");
    assert_eq!(bare.take(2), [1000, 9000]);
    bare.insert("A1000+2048 A9000");
    assert_eq!(bare.take(2), [9000, 1000]);
    bare.adios.set("compliance_flags", 1);
    bare.insert("A1000+2048 A9000");
    assert_eq!(bare.take(2), [1000, 9000], "without the prediction");
}

#[test]
fn d9_the_next_batch_is_filled_early_and_never_passed() {
    let mut bare = Bare::loaded(false);
    bare.adios.set("lat_model_read_base", 1_000_000);
    bare.insert(&(1..=20).map(|n| format!("R{n} ")).collect::<String>());
    assert_eq!(bare.take(14), (1..=14).collect::<Vec<_>>());
    assert_eq!((bare.adios.batches, bare.adios.in_flight.ns), (1, 16_000_000));
    bare.complete(14);
    assert_eq!(bare.adios.in_flight.ns, 2_000_000);
    assert_eq!(bare.take(1), [15]);
    assert_eq!(bare.adios.batches, 2);
    bare.insert("Y99");
    assert_eq!(bare.take(9), [16, 17, 18, 19, 20, 99]);
    bare.complete(7);
    assert_eq!(bare.adios.in_flight, InFlight::default());
}

const US: u64 = 1000;
/// 250 ticks a second: 1500 ms.
const INTERVAL: i64 = 375;

fn rules(separate: bool) -> models::Rules {
    Settings { separate_models: separate, ..Settings::new(false) }.rules(INTERVAL)
}

fn learn(models: &mut Models, kind: usize, bytes: u64, ns: u64, times: u64) {
    let predicted_ns = models.predict(kind, bytes);
    for _ in 0..times {
        models.sample(kind, Sample { bytes, predicted_ns, latency_ns: ns, weight: 1 }, 0, &rules(true));
    }
}

fn known(base: u64) -> Models {
    let mut models = Models::default();
    learn(&mut models, READ, 4096, base, 1);
    models
}

#[test]
fn m1_the_slowest_hundredth_does_not_count() {
    let mut models = known(80 * US);
    assert_eq!(models.line(READ).base, 80 * US);
    learn(&mut models, READ, 4096, 100 * US, 99);
    learn(&mut models, READ, 4096, 1000 * US, 1);
    models.evaluate_all(INTERVAL - 1, &rules(true));
    assert_eq!(models.line(READ).base, 80 * US, "the interval is not over");
    models.evaluate_all(INTERVAL, &rules(true));
    assert_eq!((models.line(READ).base, models.line(READ).small_samples), (99_800, 100));
    learn(&mut models, READ, 4096, 900 * US, 1);
    models.evaluate_all(2 * INTERVAL, &rules(true));
    assert_eq!(models.line(READ).base, 99_800, "of one sample nothing is left");
}

#[test]
fn m2_the_slope_absorbs_the_base() {
    for (per_sample, loaded, want) in [(false, false, 10_781), (false, true, 10_764), (true, false, 10_000)] {
        let mut models = known(100 * US);
        if loaded {
            models.load(READ, 100 * US, 0);
        }
        learn(&mut models, READ, 65_536, 700 * US, 10);
        models.evaluate_all(0, &models::Rules { base_per_sample: per_sample, ..rules(true) });
        assert_eq!(models.line(READ).slope, want, "{per_sample} {loaded}");
        if want == 10_781 {
            assert_eq!((models.predict(READ, 65_536), models.predict(READ, 131_072)), (746_860, 1_436_844));
        }
    }
}

#[test]
fn m3_samples_of_reads_teach_other_types() {
    for separate in [false, true] {
        let mut models = known(80 * US);
        learn(&mut models, READ, 4096, 100 * US, 20);
        models.evaluate_all(25, &rules(separate));
        learn(&mut models, READ, 4096, 100 * US, 2);
        models.evaluate_all(50, &rules(separate));
        let lines = [READ, WRITE, DISCARD].map(|kind| (models.line(kind).base, models.line(kind).small_samples));
        let want = if separate { [(0, 0); 2] } else { [(100 * US, 20), (100 * US, 2)] };
        assert_eq!(lines, [(80 * US, 1), want[0], want[1]]);
    }
}

#[test]
fn m4_a_reset_leaves_a_sample_of_zero() {
    let mut models = Models::default();
    models.load(WRITE, 0, 0);
    learn(&mut models, WRITE, 4096, 80 * US, 1);
    assert_eq!(models.line(WRITE).base, 40 * US);
}

#[test]
fn m5_a_bucket_counts_in_part() {
    for (fast, slow, want) in [(196, 4, 119_095), (199, 1, 100_000)] {
        let mut models = known(100 * US);
        learn(&mut models, READ, 4096, 100 * US, fast);
        learn(&mut models, READ, 4096, 2000 * US, slow);
        models.evaluate_all(INTERVAL, &rules(true));
        assert_eq!((models.line(READ).base, models.line(READ).small_samples), (want, 199));
    }
}

#[test]
fn many_samples_do_not_wait_and_old_ones_are_forgotten() {
    let mut models = known(100 * US);
    learn(&mut models, READ, 4096, 100 * US, 1023);
    models.evaluate_all(1, &rules(true));
    assert_eq!(models.line(READ).small_samples, 1);
    learn(&mut models, READ, 4096, 100 * US, 1);
    models.evaluate_all(1, &rules(true));
    assert_eq!(models.line(READ).small_samples, 1 + 1013);
    learn(&mut models, READ, 4096, 100 * US, 100);
    let few = models::Rules { shrink_samples: 1014, ..rules(true) };
    models.evaluate_all(INTERVAL + 1, &few);
    assert_eq!(models.line(READ).small_samples, 1014 - 253 + 99);
}

#[test]
fn buckets_jump_back_at_five_times_the_expected() {
    let of = |tenths: u64| models::bucket_of(tenths * 10, 100);
    assert_eq!(
        [0, 10, 19, 20, 42, 43, 49, 50, 60, 70, 80, 1000].map(of),
        [0, 20, 38, 40, 62, 63, 63, 55, 58, 61, 63, 63]
    );
    assert_eq!((models::bucket_of(1, 0), models::bucket_of(u64::MAX, 1)), (20, 63));
}

#[test]
fn c1_latency_counts_from_the_completion_before() {
    for (rotational, weight) in [(false, 3), (true, 13)] {
        let mut bare = Bare::loaded(rotational);
        bare.now = Nanos::from_us(1000);
        bare.insert("R1000 R1008 R2000");
        bare.take(3);
        for (done, last) in [(1150, Some(1150)), (1210, Some(1210)), (1330, None)] {
            bare.now = Nanos::from_us(done);
            bare.complete(1);
            assert_eq!(bare.adios.last_completion, last.map(Nanos::from_us));
        }
        let rules = models::Rules { interval_ticks: 0, shrink_samples: u64::MAX, ..rules(true) };
        bare.adios.settings.models.load(WRITE, 1, 1);
        let before = *bare.adios.settings.models.line(READ);
        bare.adios.settings.models.evaluate_all(1_000_000, &rules);
        let samples = bare.adios.settings.models.line(READ).small_samples - before.small_samples;
        assert_eq!(samples, weight * 99 / 100);
    }
}

#[test]
fn a_request_given_back_is_counted_once() {
    let mut bare = Bare::loaded(false);
    bare.insert("R1");
    let id = bare.next().unwrap();
    let ctx = Context { now: bare.now, requests: &bare.requests, tenants: &bare.tenants, busy: false };
    bare.adios.requeued(id, &ctx);
    bare.adios.insert(id, Place::Head, &ctx);
    bare.sent.clear();
    assert_eq!((bare.next(), bare.adios.in_flight), (Some(id), InFlight { count: 1, ns: 100_000 }));
    bare.complete(1);
    assert_eq!(bare.adios.in_flight, InFlight::default());
}

#[test]
fn with_separate_models_large_reads_alone_are_not_kept_in_order_for_ever() {
    let mut bare = Bare::fresh(false);
    bare.adios.set("separate_models", 1);
    bare.insert("R1+64");
    bare.now = Nanos::from_ms(5_000);
    bare.insert("R2+64");
    assert!(bare.adios.stable);
}

/// An arrival of a type and a size, a dispatch, or a completion.
#[derive(Clone, Copy, Debug)]
enum Step {
    Arrive(u8, u32),
    Send,
    Complete,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => (0u8..6, 1u32..300).prop_map(|(kind, sectors)| Step::Arrive(kind, sectors)),
        3 => Just(Step::Send),
        2 => Just(Step::Complete),
    ];
    proptest::collection::vec(step, 1..300)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Of every batch: no more of a type than its limit, no more predicted time than the window leaves unless it is one request, only
    /// the first without a model, types in order, and of each type and tree those of earlier quanta first. Nothing queued is
    /// ever withheld, and an idle scheduler has nothing in flight.
    #[test]
    fn batches_are_bounded(steps in steps(), window_us in 1u64..5000, limit in 1i128..6) {
        let mut bare = Bare::loaded(false);
        bare.adios.set("global_latency_window", i128::from(window_us * US));
        for kind in ["read", "write", "discard"] {
            bare.adios.set(&format!("batch_limit_{kind}"), limit);
        }
        let (mut queued, mut last) = (0usize, None);
        for step in steps.into_iter().chain(std::iter::repeat_n(Step::Send, 300)).chain(std::iter::repeat_n(Step::Complete, 300)) {
            match step {
                Step::Arrive(kind, sectors) => {
                    bare.now += Nanos::from_us(u64::from(sectors) * 20);
                    queued += 1;
                    let letter = ["R", "Y", "S", "A", "D", "O"][usize::from(kind)];
                    bare.insert(&format!("{letter}{}+{sectors}", queued * 10_000));
                }
                Step::Complete if bare.sent.is_empty() => {}
                Step::Complete => {
                    bare.complete(1);
                    if bare.sent.is_empty() && queued == 0 {
                        prop_assert_eq!(bare.adios.in_flight, InFlight::default());
                    }
                }
                Step::Send => {
                    let (batches, ahead) = (bare.adios.batches, bare.adios.in_flight);
                    let id = bare.next();
                    prop_assert_eq!(id.is_some(), queued > 0);
                    let Some(id) = id else { continue };
                    queued -= 1;
                    if bare.adios.batches > batches {
                        let filled = bare.adios.batches - batches;
                        prop_assert_eq!(filled, 1);
                        let page = bare.adios.pages.iter().find(|p| p.counts.iter().sum::<u64>() == bare.adios.in_flight.count - ahead.count);
                        prop_assert!(page.is_some_and(|p| p.counts[..3].iter().all(|n| i128::from(*n) <= limit)));
                        let added = bare.adios.in_flight.ns - ahead.ns;
                        let one = bare.adios.in_flight.count - ahead.count == 1;
                        prop_assert!(one || bare.adios.in_flight.ns <= window_us * US, "{added} ns on {}", ahead.ns);
                    }
                    let Entry { kind, deadline, synchronous, .. } = bare.adios.entries[id.index()];
                    let key = (bare.adios.current, kind, deadline >> QUANTUM_BITS);
                    if let Some((page, before, quantum)) = last.replace(key)
                        && page == bare.adios.current
                    {
                        prop_assert!(before <= kind, "type {kind} after {before} in one batch");
                        prop_assert!(before < kind || quantum <= key.2, "of one type by deadline, {synchronous}");
                    }
                }
            }
        }
        prop_assert_eq!(queued, 0);
    }
}
