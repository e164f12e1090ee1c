//! Any mixture of tasks, tenants and changes on any device: counts stay right, no request is lost, no time is lost.

use dumbwaiter_block::{Flags, IoClass, Ioprio, Nanos, Op, Tenant, TenantId};
use proptest::prelude::*;

use super::super::{Cfq, Version};
use super::lab::{Client, Lab, check_fractions};

fn client() -> impl Strategy<Value = Client> {
    let what = (0u32..4, 0u8..4, 0u8..8, 0u8..4, prop_oneof![Just(8u32), Just(128), 1u32..2000]);
    let how = (1u32..12, prop_oneof![Just(0u64), 0u64..200, 0u64..20_000], any::<bool>(), 0u64..500, 0u64..3000);
    (what, how).prop_map(|((tenant, class, level, op, sectors), (depth, think, sequential, start, life))| {
        let class = [IoClass::None, IoClass::Realtime, IoClass::BestEffort, IoClass::Idle][usize::from(class)];
        let flags = [Flags::NONE, Flags::SYNC, Flags::SYNC.with(Flags::IDLE), Flags::META][usize::from(op)];
        Client {
            tenant,
            ioprio: Ioprio::new(class, level),
            op: if op == 3 { Op::Read } else { [Op::Read, Op::Write][usize::from(level % 2)] },
            flags,
            sectors,
            depth,
            think: Nanos::from_us(think),
            sector: sequential.then_some(u64::from(tenant) << 20),
            stride: if level < 4 { 128 } else { 256 },
            start: Nanos::from_ms(start),
            stop: Nanos::from_ms(start + life),
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn everything_is_served_and_counted(
        clients in proptest::collection::vec(client(), 1..9),
        parents in proptest::collection::vec(0u32..6, 4),
        weights in proptest::collection::vec(1u32..10_000, 4),
        kind in 0usize..4,
        disk in any::<bool>(),
        depth in 1u32..33,
        settings in (0i128..20, 0i128..20, 1i128..12, 0i128..2),
        exits in proptest::collection::vec((0usize..9, 1u64..3000), 0..3),
        force in prop_oneof![3 => Just(0usize), 1 => 1usize..9],
    ) {
        let make = |setup| match kind {
            0 => Cfq::new(setup, Version::K310),
            1 => Cfq::new(setup, Version::K318),
            2 => Cfq::new(setup, Version::K420),
            _ => Cfq::anticipating(setup),
        };
        let lab = if disk { Lab::disk(make, depth) } else { Lab::flash(make) };
        let (slice_idle, group_idle, quantum, low_latency) = settings;
        let lab = lab.set("slice_idle", slice_idle).set("group_idle", group_idle).set("quantum", quantum);
        let mut lab = lab.set("low_latency", low_latency);
        // A tenant hangs from an earlier one, or from the root.
        lab.tenants = (0..4u32)
            .map(|i| {
                let parent = parents[i as usize];
                Tenant { weight: weights[i as usize], parent: (parent < i).then_some(TenantId(parent)) }
            })
            .collect();
        lab.force = force;
        let n = clients.len();
        for client in clients {
            lab.add(client);
        }
        let mut exits = exits;
        exits.sort_by_key(|e| e.1);
        for (task, ms) in exits {
            lab.run(Nanos::from_ms(ms));
            check_fractions(&lab.scheduler);
            lab.reweigh(task as u32 % 4, 1 + task as u32 * 100);
            let leaf = ["leaf_weight", "root_leaf_weight"][task % 2];
            dumbwaiter_block::set_tunable(&mut lab.scheduler, leaf, 1 + i128::from(ms)).unwrap();
            lab.ends(task % n);
        }
        // All have stopped after 3.5 s; what they asked for is served in some time.
        lab.run(Nanos::from_secs(120));
        prop_assert!(lab.requests.is_empty(), "{} are left", lab.requests.len());
        prop_assert_eq!(lab.scheduler.in_driver, 0);
    }
}
