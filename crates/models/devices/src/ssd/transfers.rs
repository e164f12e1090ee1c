//! What goes over the channels: data of reads and of programs.

use dumbwaiter_block::Nanos;

use super::channel::Transfer;
use super::events::{Event, Events, Sort};
use super::flash::Flash;
use super::work::Program;

impl Flash {
    /// The controller hands a program to its die.
    pub(super) fn hand_over(&mut self, program: Program, now: Nanos, events: &mut Events) {
        let die = program.die;
        self.dies[die as usize].programs.push_back(program);
        self.load(die, now, events);
    }

    /// Sends the data of a die's next program, if its register is free.
    pub(super) fn load(&mut self, die: u32, now: Nanos, events: &mut Events) {
        let d = &mut self.dies[die as usize];
        if d.loaded || d.loading {
            return;
        }
        let Some(Program { units, .. }) = d.programs.front().copied() else { return };
        d.loading = true;
        self.ask_channel(Transfer { die, read: false, units }, 0, now, events);
    }

    pub(super) fn channel_of(&self, die: u32) -> usize {
        die as usize % self.channels.len()
    }

    pub(super) fn ask_channel(&mut self, transfer: Transfer, turn: u64, now: Nanos, events: &mut Events) {
        let index = self.channel_of(transfer.die);
        let channel = &mut self.channels[index];
        if self.in_order && transfer.read {
            channel.ordered[(turn - channel.turn) as usize] = Some(transfer);
        } else if transfer.read {
            channel.reads.push_back(transfer);
        } else {
            channel.loads.push_back(transfer);
        }
        self.transfer(index, now, events);
    }

    /// Begins the next transfer of a channel, if it is free.
    pub(super) fn transfer(&mut self, index: usize, now: Nanos, events: &mut Events) {
        let channel = &mut self.channels[index];
        if channel.carries.is_some() {
            return;
        }
        channel.carries = channel.next();
        if let Some(Transfer { units, read, .. }) = channel.carries {
            let sort = if read { Sort::Sent } else { Sort::Other };
            events.add(now + self.channel_time[units as usize], sort, Event::Channel(index as u32));
        }
    }
}
