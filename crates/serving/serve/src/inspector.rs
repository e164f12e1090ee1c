//! The disks of a running server, as other threads reach them.

use std::sync::atomic::Ordering;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use dumbwaiter_path::Waker;

use crate::Error;
use crate::message::{Common, Message};
use crate::order::Order;
use crate::question::{Answer, DiskStats, Question, Sums};
use crate::settings::TargetSettings;

/// An answer of a disk takes longer only if it hangs.
const ANSWER_PATIENCE: Duration = Duration::from_secs(10);

/// A disk's thread, as others reach it.
#[derive(Clone)]
pub(crate) struct ShardHandle {
    pub(crate) messages: Sender<Message>,
    pub(crate) waker: Waker,
}

impl ShardHandle {
    pub(crate) fn send(&self, message: Message) -> Result<(), Error> {
        self.messages.send(message).map_err(|_| Error::Gone)?;
        self.waker.wake();
        Ok(())
    }

    pub(crate) fn ask(&self, question: Question) -> Result<Answer, Error> {
        let (sender, answer) = channel();
        self.send(Message::Ask(question, sender))?;
        answer.recv_timeout(ANSWER_PATIENCE).map_err(|_| Error::Gone)?
    }
}

/// Asks the disks of a server; for the control socket, metrics and programs.
#[derive(Clone)]
pub struct Inspector {
    pub(crate) shards: Vec<ShardHandle>,
    pub(crate) common: Arc<Common>,
}

impl Inspector {
    /// Counts of all disks.
    pub fn stats(&self) -> Result<Vec<DiskStats>, Error> {
        let ask = |shard: &ShardHandle| match shard.ask(Question::Order(Order::Stats {}))? {
            Answer::Stats(stats) => Ok(*stats),
            _ => Err(Error::Gone),
        };
        self.shards.iter().map(ask).collect()
    }

    /// The counts of all tenants that accounts are kept of, by target and export.
    pub(crate) fn sums(&self) -> Result<Vec<(String, String, Sums)>, Error> {
        let mut all = Vec::new();
        for shard in &self.shards {
            match shard.ask(Question::Accounts)? {
                Answer::Accounts(sums) => all.extend(sums),
                _ => return Err(Error::Gone),
            }
        }
        Ok(all)
    }

    /// Connections in all.
    pub fn connections(&self) -> u32 {
        self.common.connections.load(Ordering::Relaxed)
    }

    /// The targets of the configuration. Other changes wait until this is dropped.
    pub(crate) fn hold_changes(&self) -> MutexGuard<'_, Vec<TargetSettings>> {
        self.common.configured.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does every disk's thread answer?
    pub fn is_alive(&self) -> bool {
        self.shards.iter().all(|shard| matches!(shard.ask(Question::Ping), Ok(Answer::Done)))
    }

    /// Clients that were let go before they agreed on an export, or whose TLS failed.
    pub fn failed_negotiations(&self) -> u64 {
        self.common.failed_negotiations.load(Ordering::Relaxed)
    }

    /// Log lines about clients and disks that were left out, as there were too many of one kind.
    pub fn log_lines_left_out(&self) -> u64 {
        self.common.log.left_out()
    }

    /// The disk that serves an export.
    pub(crate) fn disk_of(&self, export: &str) -> Result<usize, Error> {
        self.common.directory.shard_of(export).ok_or_else(|| Error::NoExport(export.to_owned()))
    }

    /// Asks a disk by its number.
    pub(crate) fn ask_shard(&self, shard: usize, question: Question) -> Result<Answer, Error> {
        let disks = self.shards.len();
        let missing =
            || Error::Settings(format!("there is no disk {shard}; expected 0 to {}", disks.saturating_sub(1)));
        self.shards.get(shard).ok_or_else(missing)?.ask(question)
    }
}
