//! Random workloads.

use crate::notation::show;
use dumbwaiter_block::{Config, Flags, Io, IoClass, Ioprio, Limits, Nanos, Op, Setup, TaskId, TenantId};
use proptest::prelude::*;

/// The next step of a storm.
#[derive(Clone, Copy)]
pub enum Step {
    /// Submit, into the task's plug or not.
    Submit(Io, bool),
    /// The task's plug ends.
    Unplug(TaskId),
    /// A request in the device finishes.
    Complete(usize),
    /// A request in the device fails.
    Fail(usize),
    /// A request in the device is given back.
    Requeue(usize),
    /// The device refuses its next offers.
    Refuse(usize),
    /// Time passes.
    Wait(Nanos),
}

impl std::fmt::Debug for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Step::Submit(io, plugged) => {
                let plugged = if *plugged { "plug " } else { "submit " };
                let text = show(io.op, io.sector, io.sectors);
                write!(
                    f,
                    "{plugged}c{}:p{}:s{}:{}:{text} flags {:x}",
                    io.cpu, io.task.0, io.stream, io.ioprio, io.flags.0
                )
            }
            Step::Unplug(task) => write!(f, "unplug p{}", task.0),
            Step::Complete(n) => write!(f, "complete {n}"),
            Step::Fail(n) => write!(f, "fail {n}"),
            Step::Requeue(n) => write!(f, "requeue {n}"),
            Step::Refuse(n) => write!(f, "refuse {n}"),
            Step::Wait(time) => write!(f, "wait {time}"),
        }
    }
}

/// A device and what happens to it.
#[derive(Clone, Debug)]
pub struct Plan {
    cpus: u16,
    hw_queues: u16,
    depth: u32,
    nr_requests: u32,
    cache: (bool, bool),
    nomerges: u8,
    limits: Limits,
    /// For the settings of the scheduler.
    pub draws: Vec<u64>,
    /// The steps, in order.
    pub steps: Vec<Step>,
}

impl Plan {
    /// The block layer and the device.
    pub fn config(&self) -> Config {
        let setup = Setup {
            cpus: self.cpus,
            hw_queues: self.hw_queues.min(self.cpus),
            nr_requests: self.nr_requests,
            device_depth: self.depth.max(u32::from(self.hw_queues)),
            rotational: self.draws[0] & 1 == 1,
            smt: self.draws[0] & 2 == 2,
            shared_tags: self.draws[0] & 12 == 12,
            lun_depth: (self.draws[0] & 48 == 48).then_some(self.depth.div_ceil(2)),
            ..Setup::default()
        };
        let (volatile_cache, fua) = self.cache;
        Config { setup, limits: self.limits, nomerges: self.nomerges, volatile_cache, fua, ..Config::default() }
    }

    /// Every I/O, in order.
    pub fn submitted(&self) -> impl Iterator<Item = &Io> {
        self.steps.iter().filter_map(|s| match s {
            Step::Submit(io, _) => Some(io),
            _ => None,
        })
    }
}

fn flags() -> impl Strategy<Value = Flags> {
    prop_oneof![
        6 => Just(Flags::NONE),
        4 => Just(Flags::SYNC),
        1 => Just(Flags::FUA),
        1 => Just(Flags::PREFLUSH),
        1 => Just(Flags::FUA.with(Flags::PREFLUSH)),
        1 => Just(Flags::NOMERGE),
    ]
}

fn ioprio() -> impl Strategy<Value = Ioprio> {
    prop_oneof![
        4 => Just(Ioprio::DEFAULT),
        1 => (0u8..4, 0u8..8).prop_map(|(class, level)| {
            let classes = [IoClass::None, IoClass::Realtime, IoClass::BestEffort, IoClass::Idle];
            Ioprio::new(classes[usize::from(class)], level)
        }),
    ]
}

fn io() -> impl Strategy<Value = Io> {
    let op = prop_oneof![
        8 => Just(Op::Read),
        8 => Just(Op::Write),
        3 => Just(Op::Discard),
        1 => Just(Op::SecureErase),
        1 => Just(Op::WriteZeroes),
        1 => Just(Op::Flush),
    ];
    // Few places, so that requests touch and overlap; a few long ones, which are split.
    let sectors = prop_oneof![12 => Just(8u32), 3 => 1u32..24, 1 => 24u32..300];
    (op, 0u64..48, sectors, flags(), ioprio(), 0u32..4, 0u16..4, 0u16..2).prop_map(
        |(op, place, sectors, flags, ioprio, task, cpu, stream)| Io {
            op,
            flags: if op == Op::Read { flags.without(Flags::FUA.with(Flags::PREFLUSH)) } else { flags },
            ioprio,
            sector: place * 8,
            sectors: if op == Op::Flush { 0 } else { sectors },
            task: TaskId(task),
            tenant: TenantId(task / 3),
            cpu,
            stream: stream * u16::from(task == 0),
            token: 0,
        },
    )
}

fn steps(io: impl Strategy<Value = Io>) -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        30 => (io, any::<bool>()).prop_map(|(io, plugged)| Step::Submit(io, plugged)),
        4 => (0u32..4).prop_map(|t| Step::Unplug(TaskId(t))),
        14 => (0usize..64).prop_map(Step::Complete),
        1 => (0usize..64).prop_map(Step::Fail),
        2 => (0usize..64).prop_map(Step::Requeue),
        1 => (1usize..4).prop_map(Step::Refuse),
        2 => (0u64..30_000_000).prop_map(|ns| Step::Wait(Nanos(ns))),
    ];
    proptest::collection::vec(step, 1..160)
}

fn with_steps(steps: impl Strategy<Value = Vec<Step>>) -> impl Strategy<Value = Plan> {
    let limits = (prop_oneof![Just(0u32), Just(64)], prop_oneof![3 => Just(1u16), 1 => Just(4)], 2u16..9).prop_map(
        |(chunk_sectors, max_discard_segments, max_segments)| Limits {
            max_sectors: 64,
            max_discard_sectors: 128,
            max_segments,
            max_discard_segments,
            chunk_sectors,
            segment_bytes: 4096,
        },
    );
    let shape = (1u16..5, 1u16..4, 1u32..24, 4u32..48, any::<(bool, bool)>());
    let nomerges = prop_oneof![6 => Just(0u8), 1 => Just(1), 1 => Just(2)];
    (shape, nomerges, limits, proptest::collection::vec(any::<u64>(), 8), steps).prop_map(
        |((cpus, hw_queues, depth, nr_requests, cache), nomerges, limits, draws, mut steps)| {
            for step in &mut steps {
                if let Step::Submit(io, _) = step {
                    io.cpu %= cpus;
                }
            }
            Plan { cpus, hw_queues, depth, nr_requests, cache, nomerges, limits, draws, steps }
        },
    )
}

/// Everything.
pub fn everything() -> impl Strategy<Value = Plan> {
    with_steps(steps(io()))
}

/// Reads and writes of one priority, without flushes.
pub fn plain() -> impl Strategy<Value = Plan> {
    with_steps(steps(io().prop_map(|mut io| {
        if !io.op.carries_data() {
            io.op = Op::Write;
            io.sectors = 8;
        }
        Io { ioprio: Ioprio::DEFAULT, flags: io.flags.without(Flags::FUA.with(Flags::PREFLUSH)), ..io }
    })))
}
