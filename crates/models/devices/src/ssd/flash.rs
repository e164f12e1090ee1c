//! Dies and channels.
//!
//! A die does one thing at a time and has a queue of reads and one of programs. Nothing is reserved ahead: a program takes the
//! channel only when its die can take the data, and reads go before it, so that a deep queue of writes costs a read no more than
//! the step in which its die is.

use std::collections::VecDeque;

use dumbwaiter_block::Nanos;

use super::buffer::Buffer;
use super::channel::Channel;
use super::die::Die;
use super::ftl::Ftl;
use super::params::Params;
use super::precondition;
use super::work::Notice;

/// Pages of each type follow each other: fast, middle, slow.
pub(super) const PAGE_TYPES: u64 = 3;

/// Dies, channels and the write buffer in front of them.
#[derive(Debug)]
pub(crate) struct Flash {
    pub(super) ftl: Ftl,
    pub(super) dies: Vec<Die>,
    pub(super) channels: Vec<Channel>,
    pub(super) buffer: Buffer,
    /// Cell read of each type of page, of one unit and of more.
    pub(super) t_read: [[Nanos; PAGE_TYPES as usize]; 2],
    pub(super) t_program: Nanos,
    pub(super) t_erase: Nanos,
    pub(super) planes: f64,
    /// Channel time of a command by its number of units.
    pub(super) channel_time: Vec<Nanos>,
    pub(super) in_order: bool,
    pub(super) read_first: bool,
    pub(super) suspend_program: bool,
    pub(super) suspend_erase: bool,
    pub(super) t_suspend: Nanos,
    /// Longest piece of a program that a read cannot interrupt; 0: any point is one to suspend at.
    pub(super) piece: Nanos,
    /// Reads of a die between two programs; 0: no limit.
    pub(super) reads_per_program: u32,
    pub(super) orders: u64,
    pub(super) notices: VecDeque<Notice>,
}

impl Flash {
    pub(crate) fn new(p: &Params) -> Flash {
        let us = Nanos::from_us_f64;
        let ftl = precondition::state(p);
        let most = ftl.shape.units_per_program.max(ftl.shape.units_per_page);
        let transfer = |units: u32| us(p.channel_command_us + f64::from(units) * 4096.0 / p.channel_mb_per_s);
        let or_middle = |t: f64| if t > 0.0 { t } else { p.t_read_us };
        let types = [or_middle(p.t_read_fast_us), p.t_read_us, or_middle(p.t_read_slow_us)];
        Flash {
            dies: (0..ftl.shape.dies).map(|_| Die::new()).collect(),
            channels: (0..p.channels).map(|_| Channel::default()).collect(),
            buffer: Buffer::new(p, most),
            t_read: [types.map(us), types.map(|t| us(t * p.t_read_large))],
            t_program: us(p.t_program_us),
            t_erase: us(p.t_erase_us),
            planes: f64::from(p.planes),
            channel_time: (0..=most).map(transfer).collect(),
            in_order: p.in_order,
            read_first: p.read_first,
            suspend_program: p.suspend == "program+erase",
            suspend_erase: p.suspend != "none",
            t_suspend: us(p.t_suspend_us),
            piece: us(p.suspend_every_us),
            reads_per_program: p.reads_per_program as u32,
            orders: 0,
            notices: VecDeque::new(),
            ftl,
        }
    }

    pub(super) fn fold(&self, unit: u64) -> u32 {
        (unit % u64::from(self.ftl.shape.logical_units)) as u32
    }

    /// The least time from the end of a cell read to the end of its transfer.
    pub(super) fn least_transfer(&self) -> Nanos {
        self.channel_time[1]
    }

    /// The shortest cell read.
    pub(super) fn least_read(&self) -> Nanos {
        self.t_read.as_flattened().iter().copied().min().unwrap_or(Nanos::ZERO)
    }

    pub(super) fn middle_read(&self) -> Nanos {
        self.t_read[0][1]
    }

    pub(crate) fn next_notice(&mut self) -> Option<Notice> {
        self.notices.pop_front()
    }

    pub(super) fn next_order(&mut self) -> u64 {
        self.orders += 1;
        self.orders
    }
}
