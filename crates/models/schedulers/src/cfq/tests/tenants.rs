//! Tenants: shares by time and by requests, and what A+CFQ makes of them.

use dumbwaiter_block::{Flags, Nanos, Op, Tenant, TenantId};

use super::super::{Cfq, Version};
use super::close;
use super::lab::{Client, Lab, Sent};

const SECOND: Nanos = Nanos::from_secs(1);

fn random(tenant: u32, depth: u32, sectors: u32) -> Client {
    Client { tenant, depth, sectors, sector: None, ..Client::reader() }
}

fn sectors(sent: &Sent) -> u64 {
    u64::from(sent.sectors)
}

fn requests(_: &Sent) -> u64 {
    1
}

fn flash() -> Lab {
    Lab::flash(|setup| Cfq::new(setup, Version::K318))
}

fn anticipating() -> Lab {
    Lab::flash(Cfq::anticipating)
}

#[test]
fn time_goes_by_weight() {
    // Without low latency all slices are equally long, and so is what a seek adds to each.
    let disk = Lab::disk(|setup| Cfq::new(setup, Version::K318), 1).set("low_latency", 0);
    let mut lab = disk.weights(&[100, 200, 400]);
    for tenant in 0..3 {
        lab.add(Client { sector: Some(u64::from(tenant) << 24), depth: 8, ..random(tenant, 8, 128) });
    }
    for second in 1..200 {
        lab.run(Nanos::from_secs(second));
        let groups = &lab.scheduler.groups[1..];
        let times = groups.iter().map(|g| g.vdisktime);
        let spread = times.clone().max().unwrap() - times.min().unwrap();
        let slice = lab.scheduler.set.slice[1] as u64;
        let least = groups.iter().map(|g| g.vfraction).min().unwrap();
        assert!(second < 3 || spread <= (slice << 24) / least, "a spread of {spread} after {second} s");
    }
    for (share, weight) in lab.time_shares(Nanos::from_secs(10)).iter().zip([1.0, 2.0, 4.0]) {
        close(share / (weight / 7.0), 1.0, 0.05, "time by weight");
    }
}

#[test]
fn requests_go_by_weight_where_nothing_idles_and_bytes_by_size() {
    let mut lab = flash().weights(&[100, 200, 400]);
    for tenant in 0..3 {
        for _ in 0..2 {
            lab.add(random(tenant, 32, 8));
        }
    }
    lab.run(Nanos::from_secs(20));
    for (share, weight) in lab.shares(SECOND, requests).iter().zip([1.0, 2.0, 4.0]) {
        close(share / (weight / 7.0), 1.0, 0.03, "requests by weight");
    }

    let mut lab = flash().weights(&[100, 100]);
    lab.add(random(0, 64, 8));
    lab.add(random(1, 64, 512));
    lab.run(Nanos::from_secs(20));
    let shares = lab.shares(SECOND, sectors);
    close(shares[1] / shares[0] / 64.0, 1.0, 0.05, "bytes of 256 KiB to 4 KiB");
}

#[test]
fn one_request_at_a_time_gets_far_less_than_its_share() {
    let run = |lab: Lab| {
        let mut lab = lab.weights(&[100, 100]);
        for (tenant, depth) in [(0, 1), (1, 32)] {
            // A task needs a moment to ask again.
            lab.add(Client { think: Nanos::from_us(20), ..random(tenant, depth, 8) });
        }
        lab.run(Nanos::from_secs(10));
        (lab.shares(SECOND, sectors)[0], lab.time_shares(SECOND)[0])
    };
    let (plain, anticipating) = (run(flash()), run(anticipating()));
    println!("sectors and time of the lone request: cfq {plain:.3?}, a-cfq {anticipating:.3?}");
    assert!(plain.0 < 0.1 && plain.1 < 0.3, "{plain:?}");
    // The device idles for it, so it has its slots; what is in the device when a slot ends is no backlog.
    close(anticipating.1, 0.5, 0.05, "slots");
}

#[test]
fn a_group_that_slept_goes_to_the_end_of_the_line() {
    let mut lab = flash().weights(&[100, 100]);
    lab.add(random(0, 64, 8));
    lab.add(Client { start: Nanos::from_secs(5), ..random(1, 64, 8) });
    lab.run(Nanos::from_secs(5));
    let used = lab.scheduler.groups[1].vdisktime;
    assert!(used > 0);
    lab.run(Nanos::from_ms(5_001));
    assert!(lab.scheduler.groups[2].vdisktime >= used, "no credit for the sleep");
    lab.run(Nanos::from_secs(25));
    let shares = lab.shares(Nanos::from_secs(5), requests);
    close(shares[0], 0.5, 0.01, "equal weights");
}

#[test]
fn nested_fractions_multiply() {
    let mut lab = flash();
    // a (100) holds c (300) and d (100); b (200) beside it.
    let tenants = [(100, None), (200, None), (300, Some(0)), (100, Some(0))];
    lab.tenants = tenants.map(|(weight, parent)| Tenant { weight, parent: parent.map(TenantId) }).into_iter().collect();
    for tenant in 1..4 {
        lab.add(random(tenant, 64, 8));
    }
    lab.run(Nanos::from_secs(20));
    let fractions: Vec<u64> =
        lab.scheduler.tenants[1..].iter().map(|g| lab.scheduler.groups[*g as usize].vfraction).collect();
    // 4096 x 200/300; 4096 x 300/400 x 100/300; 4096 x 100/400 x 100/300.
    assert_eq!(fractions, [2730, 1024, 341]);
    for (share, want) in lab.shares(SECOND, requests)[1..].iter().zip([2.0 / 3.0, 0.25, 1.0 / 12.0]) {
        close(share / want, 1.0, 0.03, "requests in nested groups");
    }
    let mut lab = anticipating();
    lab.tenants = tenants.map(|(weight, parent)| Tenant { weight, parent: parent.map(TenantId) }).into_iter().collect();
    for tenant in 1..4 {
        lab.add(random(tenant, 64, if tenant == 2 { 8 } else { 128 }));
    }
    lab.run(Nanos::from_secs(60));
    for (share, want) in lab.shares(Nanos::from_secs(5), sectors)[1..].iter().zip([2.0 / 3.0, 0.25, 1.0 / 12.0]) {
        close(share / want, 1.0, 0.04, "sectors in nested groups");
    }
}

#[test]
fn parents_in_a_circle_hang_from_the_root() {
    let mut lab = flash();
    lab.tenants = [1, 0].map(|p| Tenant { weight: 100, parent: Some(TenantId(p)) }).into_iter().collect();
    lab.add(random(0, 4, 8));
    lab.add(random(1, 4, 8));
    lab.run(SECOND);
    assert!(lab.scheduler.groups[1..].iter().all(|g| g.parent == 0));
}

#[test]
fn a_new_weight_counts_from_the_next_slice() {
    let mut lab = flash().weights(&[100, 100]);
    lab.add(random(0, 64, 8));
    lab.add(random(1, 64, 8));
    lab.run(Nanos::from_secs(5));
    lab.reweigh(1, 300);
    lab.run(Nanos::from_secs(15));
    close(lab.shares(Nanos::from_secs(6), requests)[1], 0.75, 0.02, "three of four");
}

#[test]
fn bytes_go_by_weight_whatever_the_size() {
    let mut lab = anticipating().weights(&[100, 100]);
    lab.add(random(0, 64, 8));
    lab.add(random(1, 64, 512));
    lab.check = false;
    lab.run(Nanos::from_secs(60));
    close(lab.shares(Nanos::from_secs(5), sectors)[0], 0.5, 0.01, "4 KiB beside 256 KiB");

    let weights = [100, 200, 400, 500];
    let mut lab = anticipating().weights(&weights);
    for (tenant, size) in [(0, 8), (1, 64), (2, 256), (3, 16)] {
        lab.add(random(tenant, 32, size));
    }
    lab.check = false;
    lab.run(Nanos::from_secs(120));
    let shares = lab.shares(Nanos::from_secs(10), sectors);
    let pv: f64 =
        weights.iter().zip(&shares).map(|(w, s)| (f64::from(*w) / 100.0 - s / shares[0]).abs()).sum::<f64>() / 4.0;
    println!("a-cfq shares {shares:.4?}, PV {pv:.4}");
    assert!(pv < 0.1, "PV {pv} of {shares:?}");
}

#[test]
fn virtual_time_is_sectors_by_weight() {
    let weights = [100, 300];
    let mut lab = anticipating().weights(&weights);
    lab.add(random(0, 32, 8));
    lab.add(random(1, 32, 128));
    let (mut before, mut served) = ([0u64; 2], [0u64; 2]);
    for ms in 1..4000 {
        lab.run(Nanos::from_ms(ms));
        let anticipation = lab.scheduler.anticipation.as_ref().unwrap();
        let now = [1, 2].map(|g| if g < lab.scheduler.groups.len() as u32 { anticipation.vt(g) } else { 0 });
        assert!(now[0] >= before[0] && now[1] >= before[1], "virtual time goes on");
        if now != before && ms > 500 {
            // At most a slot apart: 300 ms of 1.6 GB/s by the smaller weight, and a request.
            let apart = now[0].abs_diff(now[1]) >> 24;
            assert!(apart < 300 * 1600 * 2 / 100 + 128, "{apart} sectors by weight apart");
        }
        before = now;
    }
    for sent in &lab.sent {
        served[sent.client] += u64::from(sent.sectors);
    }
    // All that was sent is charged, but for the turn that goes on and for rounding.
    let (current, so_far) = lab.scheduler.anticipation.as_ref().unwrap().turn_sectors().unwrap_or_default();
    for tenant in [0, 1] {
        let charged = u128::from(before[tenant]) * u128::from(weights[tenant]);
        let goes_on = if current == tenant as u32 + 1 { so_far } else { 0 };
        let want = u128::from(served[tenant] - goes_on) << 24;
        let turns = lab.sent.len() as u128;
        assert!(charged <= want && want - charged <= turns * u128::from(weights[tenant]), "{charged} {want}");
    }
}

#[test]
fn write_back_has_its_slots_beside_readers_that_never_pause() {
    let mut lab = anticipating().weights(&[100, 100]);
    lab.add(random(0, 32, 8));
    lab.add(random(1, 32, 64));
    // It is the root's, whose own weight is 200.
    lab.add(Client { op: Op::Write, flags: Flags::NONE, ..random(0, 64, 32) });
    lab.run(Nanos::from_secs(60));
    let sum = |client| -> u64 {
        lab.sent.iter().filter(|s| s.client == client && s.at > Nanos::from_secs(5)).map(sectors).sum()
    };
    let [a, b, writes] = [0, 1, 2].map(sum);
    let all = (a + b + writes) as f64;
    for (part, want) in [(a, 0.25), (b, 0.25), (writes, 0.5)] {
        close(part as f64 / all, want, 0.02, "sectors");
    }
}

#[test]
fn every_tenant_has_its_turn_within_all_slots() {
    let weights = [100, 200, 400, 500];
    let mut lab = anticipating().weights(&weights);
    let shapes = [(1, 8), (32, 8), (4, 512), (16, 64)];
    for (tenant, (depth, size)) in (0u32..).zip(shapes) {
        lab.add(random(tenant, depth, size));
    }
    lab.run(Nanos::from_secs(30));
    for client in 0..4 {
        let mut last = Nanos::ZERO;
        for at in lab.sent.iter().filter(|s| s.client == client).map(|s| s.at).chain([lab.now]) {
            // By sectors a tenant may have to wait until the others have had as much by weight: those who are faster
            // need less time for that than their slots, so a round is what all slots take, and what is in the device
            // when each ends; and two, if it went first in one and last in the next.
            assert!(at.since(last) < Nanos::from_ms(2 * 300 + 50), "client {client}: {}", at.since(last));
            last = at;
        }
    }
}

/// A tenant that is alone when its turn begins has the whole target latency, until there are others.
#[test]
fn a_slot_is_shorter_when_others_come() {
    let mut lab = anticipating().weights(&[100, 500]);
    let early = lab.add(random(0, 32, 8));
    let late = lab.add(Client { start: Nanos::from_ms(10), ..random(1, 32, 8) });
    lab.run(Nanos::from_ms(400));
    let first = lab.sent.iter().find(|s| s.client == late).unwrap().at;
    // A sixth of 300 ms, and what was in the device.
    assert!(first > Nanos::from_ms(45) && first < Nanos::from_ms(55), "{first}");
    assert!(lab.sent.iter().any(|s| s.client == early));
}

#[test]
fn own_tasks_beside_nested_tenants_have_their_leaf_weight() {
    let mut lab = flash().set("leaf_weight", 300);
    lab.tenants =
        [None, Some(0)].map(|p: Option<u32>| Tenant { weight: 100, parent: p.map(TenantId) }).into_iter().collect();
    lab.add(random(0, 64, 8));
    lab.add(random(1, 64, 8));
    lab.run(Nanos::from_secs(10));
    close(lab.shares(SECOND, requests)[0], 0.75, 0.01, "300 of 400");
    dumbwaiter_block::set_tunable(&mut lab.scheduler, "leaf_weight", 100).unwrap();
    lab.run(Nanos::from_secs(20));
    close(lab.shares(Nanos::from_secs(11), requests)[0], 0.5, 0.01, "100 of 200");
}

#[test]
fn tasks_of_the_root_have_its_leaf_weight_together() {
    let mut lab = flash().weights(&[200, 100]);
    let root = lab.tenants.add_root(1).0;
    for tenant in [0, 1, root, root] {
        lab.add(random(tenant, 64, 8));
    }
    lab.run(Nanos::from_secs(10));
    let shares = lab.shares(SECOND, requests);
    close(shares[0], 0.4, 0.01, "200 of 500");
    close(shares[2], 0.4, 0.01, "root_leaf_weight is 200");
}

#[test]
fn a_sleeper_has_no_credit_and_no_debt() {
    let mut lab = anticipating().weights(&[100, 100]);
    lab.add(random(0, 64, 32));
    lab.add(Client { stop: SECOND, ..random(1, 64, 32) });
    lab.add(Client { start: Nanos::from_secs(11), ..random(1, 64, 32) });
    lab.run(Nanos::from_secs(31));
    close(lab.shares(Nanos::from_ms(11_000), sectors)[0], 0.5, 0.02, "after ten seconds of sleep");
}

#[test]
fn a_tenant_is_waited_for_as_long_as_it_usually_takes() {
    // One request at a time: 161 us in the device and a pause. It dispatches every 361 us, and is back after 200 us.
    let run = |think: Nanos, cap: i128| {
        let mut lab = anticipating().weights(&[100, 100]).set("anticipation_cap", cap);
        let lone = lab.add(Client { think, ..random(0, 1, 16) });
        lab.add(random(1, 16, 16));
        lab.run(Nanos::from_secs(10));
        let after = lab.sent.windows(2).filter(|p| p[0].client == lone && p[0].at > SECOND);
        let (kept, lost): (Vec<_>, Vec<_>) = after.partition(|p| p[1].client == lone);
        let longest = lost.iter().map(|p| p[1].at.since(p[0].at)).max();
        (kept.len(), lost.len(), longest.unwrap_or_default())
    };
    let (kept, lost, _) = run(Nanos::from_us(200), 8000);
    // It loses its turn only at the end of a slot of 150 ms.
    assert!(kept > 100 * lost && lost > 0, "{kept} kept, {lost} lost");
    let (kept, lost, longest) = run(Nanos::from_us(200), 100);
    assert!(kept == 0 && lost > 0, "{kept} kept, {lost} lost");
    assert!(longest <= Nanos::from_us(161 + 101), "{longest}");
    let (kept, _, longest) = run(Nanos::from_ms(50), 8000);
    assert!(kept == 0 && longest <= Nanos::from_us(161 + 8001), "{kept} kept, idle for {longest}");
    let (kept, lost, _) = run(Nanos::from_us(200), 0);
    assert!(kept == 0 && lost > 0);
}

#[test]
fn the_wait_ends_to_the_nanosecond() {
    // The first wait is 1 ms. The tenant's request takes 161,840 ns; the other's arrives while the device idles for it.
    let run = |think: Nanos| {
        let mut lab = anticipating().weights(&[100, 100]);
        let lone = lab.add(Client { think, ..random(0, 1, 16) });
        lab.add(Client { start: Nanos::from_us(500), ..random(1, 1, 16) });
        lab.run(Nanos::from_ms(10));
        lab.sent[1].client == lone
    };
    let wait = Nanos::from_ms(1);
    assert!(run(Nanos(wait.0 - 1)));
    assert!(!run(Nanos(wait.0 + 1)));
}
