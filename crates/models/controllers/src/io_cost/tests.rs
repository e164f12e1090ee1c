use dumbwaiter_block::{Nanos, Op, RequestId};
use proptest::prelude::*;

use super::*;
use crate::kernel_timer::Jiffies;

const A_PAGE: u32 = 8;
/// Far from the last I/O, and behind it.
const FAR: u64 = 1 << 30;

fn settings(model: &str, qos: &str) -> Settings {
    Settings::default().with_model(model).unwrap().with_qos(qos).unwrap()
}

fn fixed() -> Settings {
    settings(
        "rbps=45875200 rseqiops=700 rrandiops=700 wbps=45875200 wseqiops=700 wrandiops=700",
        "enable=1 rlat=25000 wlat=25000 min=100 max=100",
    )
}

fn device(settings: Settings) -> Device {
    Device::new(Jiffies::default(), false, 64, settings)
}

fn read(group: usize, id: u32, sector: u64) -> Asking {
    Asking { id: RequestId(id), group, op: Op::Read, sector, sectors: A_PAGE, may_sleep: true }
}

fn no_wake(id: RequestId, _: u64) {
    panic!("{id:?} is woken");
}

/// Groups that always have one waiting, each with an I/O at a time at the controller and none that stays in the device.
struct Load {
    device: Device,
    waits: Vec<bool>,
    served: Vec<u64>,
    sector: u64,
}

impl Load {
    fn new(device: Device, groups: usize) -> Load {
        Load { device, waits: vec![false; groups + 1], served: vec![0; groups + 1], sector: FAR }
    }

    fn submit(&mut self, group: usize, now: Nanos) {
        for _ in 0..1000 {
            if self.waits[group] {
                return;
            }
            self.sector = if self.sector > 3 * FAR { FAR } else { self.sector + FAR / 1000 };
            let mut woken = Vec::new();
            let io = read(group, group as u32, self.sector);
            match self.device.submit(io, now, &mut |id, cost| woken.push((id, cost))) {
                Answer::Pass(cost) => self.pass(group, cost),
                Answer::Wait => self.waits[group] = true,
                Answer::InDebt(_) => {}
            }
            self.wake(woken);
        }
        panic!("group {group} passes without end");
    }

    fn pass(&mut self, group: usize, cost: u64) {
        self.served[group] += 1;
        self.device.ended(group, cost);
    }

    fn wake(&mut self, woken: Vec<(RequestId, u64)>) {
        for (id, cost) in woken {
            self.waits[id.index()] = false;
            self.pass(id.index(), cost);
        }
    }

    /// Keeps `busy` groups busy until `until`.
    fn run(&mut self, busy: &[usize], from: Nanos, until: Nanos) {
        let mut now = from;
        while now < until {
            busy.iter().for_each(|group| self.submit(*group, now));
            now = self.device.timer().unwrap_or(until).min(until);
            let mut woken = Vec::new();
            self.device.tick(now, &mut |id, cost| woken.push((id, cost)));
            self.wake(woken);
        }
    }
}

#[test]
fn built_in_parameters_give_the_kernels_coefficients() {
    let of = |class: DeviceClass| {
        let values = class.model().map(Coefficients::of);
        values.map(|c| [c.page, c.sequential, c.random])
    };
    assert_eq!(of(DeviceClass::Hdd), [[3_234_924, 60_342, 368_221_708], [3_161_261, 57_074, 360_433_855]]);
    assert_eq!(of(DeviceClass::SsdDepth1), [[2_289_734, 0, 17_497_044], [3_982_238, 94_134, 1_146_847]]);
    assert_eq!(of(DeviceClass::SsdDefault), [[1_152_074, 14_235_181, 14_983_047], [1_315_634, 3_464_021, 4_948_676]]);
    assert_eq!(of(DeviceClass::SsdFast), [[181_449, 8_171, 0], [323_018, 0, 0]]);
}

/// E1: sizes and distances of the default class.
#[test]
fn an_io_costs_its_pages_and_a_base() {
    let [reads, writes] = DeviceClass::SsdDefault.model().map(Coefficients::of);
    assert_eq!(reads.cost(FAR, 8, 8), 16_135_121);
    assert_eq!(reads.cost(1024, 128, 1024), 32_668_365);
    assert_eq!(reads.cost(1024, 2048, 1024), 309_166_125);
    assert_eq!(writes.cost(FAR, 1, 8), 6_264_310);
    // The first one is sequential, and so is one within 16 MiB; 32776 sectors away it is random. 12 KiB cost 3 pages, 6 KiB one.
    assert_eq!(reads.cost(FAR, 8, 0), reads.cost(8, 8, 8));
    assert_eq!(reads.cost(8 + 32_775, 8, 8), reads.cost(8, 8, 8));
    assert_eq!(reads.cost(8 + 32_776, 8, 8), 16_135_121);
    assert_eq!(reads.pages(24) / reads.page, 3);
    assert_eq!(reads.pages(12), reads.page);
}

/// E2: weights of 1 to 3.
#[test]
fn full_groups_get_their_shares_to_within_an_io_a_period() {
    let mut device = device(fixed());
    let (light, heavy) = (device.add_group(0, 50, Nanos::ZERO), device.add_group(0, 150, Nanos::ZERO));
    let mut load = Load::new(device, 2);
    load.run(&[light, heavy], Nanos::ZERO, Nanos::from_secs(1));
    let before = load.served.clone();
    load.run(&[light, heavy], Nanos::from_secs(1), Nanos::from_secs(11));
    let rate = |group: usize| (load.served[group] - before[group]) as f64 / 10.0;
    assert!((rate(light) - 175.0).abs() < 1.5, "{}", rate(light));
    assert!((rate(heavy) - 525.0).abs() < 3.0, "{}", rate(heavy));
}

/// E2: the start, with half a period of budget.
#[test]
fn a_group_begins_with_half_a_period() {
    let mut device = device(fixed());
    let (light, heavy) = (device.add_group(0, 50, Nanos::ZERO), device.add_group(0, 150, Nanos::ZERO));
    let now = Nanos::from_secs(5);
    let pass = |device: &mut Device, group| {
        let mut passed = 0;
        while let Answer::Pass(_) = device.submit(read(group, 1, FAR * (1 + passed % 2)), now, &mut no_wake) {
            passed += 1;
        }
        passed
    };
    assert_eq!(device.submit(read(heavy, 1, FAR), now, &mut no_wake), Answer::Pass(196_341_363));
    assert_eq!(device.budget(heavy, now), 25_000 * 137_438 - 196_341_363);
    device.submit(read(light, 1, FAR), now, &mut no_wake);
    assert_eq!((pass(&mut device, light), device.shares(light)), (3, (16_384, 16_384)));
    assert_eq!((pass(&mut device, heavy), device.shares(heavy)), (12, (49_152, 49_152)));
}

/// E3: a group that uses a tenth lends the rest, and takes it back step by step.
#[test]
fn a_group_lends_what_it_does_not_use_and_takes_it_back() {
    let mut device = device(fixed());
    let (a, b) = (device.add_group(0, 300, Nanos::ZERO), device.add_group(0, 100, Nanos::ZERO));
    let weight = |weight: u32| weight * 65_536;
    device.groups.set_weights(a, weight(300), weight(300), Some(0));
    device.groups.set_weights(b, weight(100), weight(100), Some(0));
    device.groups.commit();
    assert_eq!((device.shares(a), device.shares(b)), ((49_152, 49_152), (16_384, 16_384)));
    device.groups[a].is_active = true;
    device.groups[b].is_active = true;
    device.add_lender(a, 6_554, 49_152);
    let moment = device.moment(Nanos::ZERO);
    device.transfer(&moment);
    device.groups.commit();
    assert_eq!(device.groups[a].inuse, 728_228);
    assert_eq!((device.shares(a).1, device.shares(b).1), (6_554, 58_981));
    device.scratch_clear();
    device.add_lender(a, 8_192, 49_152);
    device.transfer(&moment);
    device.groups.commit();
    assert_eq!(device.groups[a].inuse, 936_229);
    // It runs short of budget, and one more I/O does not fit.
    device.scratch_clear();
    device.groups[a].saved_margin = i64::MAX;
    device.groups[a].vtime = moment.vtime;
    device.trace();
    device.submit(read(a, 1, FAR), Nanos::ZERO, &mut no_wake);
    let raised = device.take_trace();
    assert!(
        matches!(raised[..], [Trace::Inuse(Lent::Adjust, _, 936_229, after)] if after == weight(300)),
        "{raised:?}"
    );
    assert_eq!(device.groups[a].inuse, weight(300));
}

/// E4: two levels.
#[test]
fn what_a_child_lends_goes_to_all_in_proportion() {
    let mut device = device(fixed());
    let a = device.add_group(0, 300, Nanos::ZERO);
    let (x, y) = (device.add_group(a, 100, Nanos::ZERO), device.add_group(a, 300, Nanos::ZERO));
    let b = device.add_group(0, 100, Nanos::ZERO);
    for (group, weight) in [(x, 100), (y, 300), (b, 100)] {
        device.groups[group].is_active = true;
        device.groups.set_weights(group, weight * 65_536, weight * 65_536, Some(0));
    }
    device.groups.commit();
    assert_eq!([x, y, b].map(|group| device.shares(group).0), [12_288, 36_864, 16_384]);
    device.add_lender(y, 6_554, 36_864);
    let moment = device.moment(Nanos::ZERO);
    device.transfer(&moment);
    device.groups.commit();
    assert_eq!((device.groups[y].inuse, device.groups[a].inuse), (1_699_197, 6_189_598));
    assert_eq!([x, y, b].map(|group| device.shares(group).1), [25_277, 6_554, 33_703]);
}

/// E5 and E7: the rate by periods of misses, and outside its bounds.
#[test]
fn the_rate_follows_misses_and_its_bounds() {
    let mut device = device(settings("rbps=1", "enable=1 rpct=90 rlat=20000 wlat=20000 min=1 max=10000"));
    assert_eq!(device.period_us(), 40_000);
    let group = device.add_group(0, 100, Nanos::ZERO);
    let mut rates = Vec::new();
    for _ in 0..21 {
        device.latencies.met[0] = 68;
        device.latencies.missed[0] = 12;
        device.end_period(Nanos::ZERO, &mut no_wake);
        // One group keeps the device awake.
        device.active = vec![group];
        device.groups[group].is_active = true;
        device.groups[group].vtime_done = 1;
        device.busy = device.last_period().busy;
        rates.push(device.base_rate());
    }
    assert_eq!(rates[..3], [137_438; 3]);
    assert_eq!(rates[3..7], [136_064, 134_704, 133_357, 132_024]);
    let percent = |rate: u64| (rate as f64 / 1374.38 * 100.0).round() / 100.0;
    assert_eq!([18, 19, 20].map(|at| percent(rates[at])), [85.15, 83.45, 81.78]);

    let mut device = Device::new(Jiffies::default(), false, 64, settings("rbps=1", "enable=1 min=50 max=50"));
    let group = device.add_group(0, 100, Nanos::ZERO);
    for _ in 0..17 {
        assert!(device.base_rate() > 68_719);
        device.active = vec![group];
        device.groups[group].is_active = true;
        device.groups[group].vtime_done = 1;
        device.end_period(Nanos::ZERO, &mut no_wake);
    }
    assert_eq!(device.base_rate(), 68_719);
}

/// E6: swapping out in a group of a quarter delays its tasks.
#[test]
fn io_that_must_not_wait_becomes_debt() {
    let mut device =
        device(settings("rbps=4096 rseqiops=1 rrandiops=1", "enable=1 rlat=25000 wlat=25000 min=100 max=100"));
    let (light, heavy) = (device.add_group(0, 100, Nanos::ZERO), device.add_group(0, 300, Nanos::ZERO));
    for (group, weight) in [(light, 100), (heavy, 300)] {
        device.groups[group].is_active = true;
        device.groups.set_weights(group, weight * 65_536, weight * 65_536, Some(0));
    }
    device.groups.commit();
    device.active = vec![light, heavy];
    let now = Nanos::from_secs(3);
    for group in [light, heavy] {
        device.groups[group].vtime = device.moment(now).vtime;
    }
    device.incur(light, 27_487_600_000);
    assert_eq!(device.delay(light, &device.moment(now)), Some(Nanos::from_us(11_463)));
    assert_eq!((device.shares(light).1, device.groups[light].inuse), (1, 1));
    // The computed delay is 0 once it is paid, and the stored one halves each second.
    device.groups[light].debt = 0;
    device.groups[light].vtime = device.moment(now).vtime;
    let later = device.moment(now + Nanos::from_ms(1_500));
    assert_eq!(device.delay(light, &later), Some(Nanos::from_us(5_731)));
}

#[test]
fn the_root_and_what_is_no_read_or_write_are_free() {
    let mut device = device(fixed());
    let group = device.add_group(0, 100, Nanos::ZERO);
    let child = device.add_group(group, 100, Nanos::ZERO);
    let ask = |device: &mut Device, io: Asking| device.submit(io, Nanos::ZERO, &mut no_wake);
    for _ in 0..1000 {
        assert_eq!(ask(&mut device, read(0, 1, FAR)), Answer::Pass(0));
        assert_eq!(ask(&mut device, Asking { op: Op::Discard, ..read(group, 1, FAR) }), Answer::Pass(0));
        assert_eq!(ask(&mut device, Asking { op: Op::Flush, sectors: 0, ..read(group, 1, FAR) }), Answer::Pass(0));
    }
    // A group with an active child is not controlled.
    assert_ne!(ask(&mut device, read(child, 1, FAR)), Answer::Pass(0));
    assert_eq!(ask(&mut device, read(group, 1, FAR)), Answer::Pass(0));
}

#[test]
fn the_kind_of_device_follows_depth_and_the_rate() {
    let auto = Settings::default().with_qos("enable=1").unwrap();
    let class = |rotational, depth| Device::new(Jiffies::default(), rotational, depth, auto).in_force.class;
    assert_eq!(class(true, 1), Some(DeviceClass::Hdd));
    assert_eq!(class(false, 1), Some(DeviceClass::SsdDepth1));
    assert_eq!(class(false, 2), Some(DeviceClass::SsdDefault));
    let mut device = device(auto);
    device.base_rate = 5 * VTIME_PER_US;
    device.refresh(Nanos::from_secs(1), false);
    device.refresh(Nanos::from_secs(10), false);
    assert_eq!(device.in_force.class, Some(DeviceClass::SsdDefault));
    device.refresh(Nanos::from_secs(11), false);
    assert_eq!(
        (device.in_force.class, device.base_rate(), device.period_us()),
        (Some(DeviceClass::SsdFast), VTIME_PER_US, 10_000)
    );
    // A scheduler on a device of one request.
    device.set_depth(1, Nanos::from_secs(12));
    assert_eq!(device.in_force.class, Some(DeviceClass::SsdDepth1));
}

#[test]
fn texts_are_read_as_the_kernel_reads_them() {
    let base = Settings::default();
    let user = base.with_qos("enable=1 ctrl=auto rpct=95.5 rlat=5000 min=0.5 max=20000").unwrap();
    assert_eq!(user.qos_text(), "enable=1 ctrl=user rpct=95.50 rlat=5000 wpct=0.00 wlat=25000 min=1.00 max=10000.00");
    assert!(!base.with_qos("rpct=95 ctrl=auto").unwrap().user_qos);
    let model = base.with_model("rbps=100 wrandiops=7").unwrap();
    let shown =
        "ctrl=user model=linear rbps=100 rseqiops=8932 rrandiops=8518 wbps=427891549 wseqiops=28755 wrandiops=7";
    assert_eq!(model.model_text(), shown);
    let fails = |text: &str| base.with_qos(text).unwrap_err().to_string();
    assert_eq!(fails("min=60 max=50"), "min: 60 % is above max, 50 %; expected min up to max");
    assert_eq!(fails("rpct=101"), "rpct: `101`; expected a percentage from 0 to 100");
    assert_eq!(fails("rpct=1.234"), "rpct: `1.234`; expected a percentage with up to two decimals");
    assert_eq!(fails("speed=1"), "unknown key `speed`; expected enable, ctrl, rpct, rlat, wpct, wlat, min, max");
    assert_eq!(fails("enable"), "setting: `enable`; expected KEY=VALUE");
    let fails = |text: &str| base.with_model(text).unwrap_err().to_string();
    assert_eq!(fails("rbps=0"), "rbps: `0`; expected a number above 0");
    assert!(fails("model=quadratic").contains("expected linear") && fails("x=1").contains("unknown key `x`"));
}

/// An idle group leaves after a period, and begins anew with half a period.
#[test]
fn idle_groups_leave_and_return_with_half_a_period() {
    let mut device = device(fixed());
    let group = device.add_group(0, 100, Nanos::ZERO);
    let Answer::Pass(cost) = device.submit(read(group, 1, FAR), Nanos::ZERO, &mut no_wake) else { panic!() };
    device.ended(group, cost);
    while let Some(at) = device.timer() {
        device.tick(at, &mut no_wake);
    }
    assert!(!device.groups[group].is_active && !device.running);
    assert_eq!(device.groups[group].inuse, 1);
    let later = Nanos::from_secs(9);
    device.submit(read(group, 1, FAR), later, &mut no_wake);
    assert_eq!(device.budget(group, later), 25_000 * 137_438 - 196_341_363);
}

/// A tree of up to 12 groups: parents come before children.
fn trees() -> impl Strategy<Value = Vec<(prop::sample::Index, u32)>> {
    prop::collection::vec((any::<prop::sample::Index>(), 1_u32..=10_000), 1..12)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Whatever happens: sums are those of the children, shares add up to at most the whole, nobody waits for ever, no debt is
    /// lost, and the rate stays near its base.
    #[test]
    fn invariants_hold_in_any_tree(
        tree in trees(),
        steps in prop::collection::vec((any::<prop::sample::Index>(), 0_u8..8, 1_u32..5000), 1..400),
    ) {
        let mut device = device(settings("rbps=45875200 rrandiops=700 wrandiops=700", "enable=1 rlat=5000 wlat=5000"));
        let mut groups = vec![0];
        for (parent, weight) in &tree {
            let parent = groups[parent.index(groups.len())];
            groups.push(device.add_group(parent, *weight, Nanos::ZERO));
        }
        let (mut now, mut id) = (Nanos::ZERO, 0);
        let mut waiting = std::collections::BTreeMap::new();
        let mut flying: Vec<(usize, u64)> = Vec::new();
        for (pick, what, much) in steps {
            let group = groups[1 + pick.index(groups.len() - 1)];
            let mut woken = Vec::new();
            let mut wake = |id: RequestId, cost| woken.push((id, cost));
            let io = Asking { may_sleep: what != 1, sectors: much % 512 + 1, ..read(group, id, u64::from(much) * 40_000) };
            match what {
                0..=2 => match device.submit(io, now, &mut wake) {
                    Answer::Pass(cost) => flying.push((group, cost)),
                    Answer::Wait => { waiting.insert(RequestId(id), group); }
                    Answer::InDebt(delay) => prop_assert!(delay.is_none_or(|d| (250_000..=250_000_000).contains(&d.0))),
                },
                3 => {
                    let into = Joined { start: io.sector, end: io.sector + 8, paid: much % 2 == 0 };
                    if let Answer::Pass(cost) = device.merged(io, into, now) { flying.push((group, cost)); }
                }
                4 => device.set_weight(group, 1 + much % 10_000, now),
                5 => { if let Some((group, cost)) = flying.pop() { device.ended(group, cost); } }
                _ => {
                    now += Nanos::from_us(u64::from(much) * 20);
                    while let Some(at) = device.timer().filter(|at| *at <= now) {
                        device.tick(at, &mut wake);
                    }
                }
            }
            id += 1;
            for (id, cost) in woken {
                // A waiter may be woken by the call that lets it wait.
                if let Some(group) = waiting.remove(&id) { flying.push((group, cost)); }
                else { prop_assert_eq!(id.0, io.id.0); }
            }
            check(&mut device, groups.len())?;
        }
        // Everybody goes on in the end.
        let mut rounds = 0;
        while device.groups.len() > 1 && (1..groups.len()).any(|at| !device.groups[at].waiters.is_empty()) {
            let at = device.timer().expect("somebody waits and no timer is set");
            flying.drain(..).for_each(|(group, cost)| device.ended(group, cost));
            let mut woken = Vec::new();
            device.tick(at, &mut |id, cost| woken.push((id, cost)));
            for (id, cost) in woken {
                if let Some(group) = waiting.remove(&id) { flying.push((group, cost)); }
            }
            rounds += 1;
            prop_assert!(rounds < 2_000_000);
        }
    }
}

fn check(device: &mut Device, groups: usize) -> Result<(), TestCaseError> {
    let mut whole = 0;
    for at in 0..groups {
        let children = (1..groups).filter(|child| device.groups[*child].parent == at);
        let sums = children.fold((0, 0), |(active, inuse), child| {
            (active + u64::from(device.groups[child].active), inuse + u64::from(device.groups[child].inuse))
        });
        prop_assert_eq!((device.groups[at].children_active, device.groups[at].children_inuse), sums);
        if device.groups[at].is_active {
            prop_assert!(device.groups[at].inuse >= 1 && device.groups[at].inuse <= device.groups[at].active);
            whole += device.shares(at).1;
        }
    }
    prop_assert!(whole <= 65_536 + 4 * groups as u32, "shares add up to {}", whole);
    let (base, rate) = (device.base_rate(), device.rate());
    // A rate is computed for a period, and its base moves at its end by up to 16 %.
    prop_assert!(rate >= base / 4 && rate <= 4 * base, "rate {} of base {}", rate, base);
    Ok(())
}
