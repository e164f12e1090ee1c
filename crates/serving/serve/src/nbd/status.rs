//! Block status: which parts of a file are holes. The seeks may block, so they run on a thread of their own.

use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use dumbwaiter_path::Waker;
use dumbwaiter_protocols::nbd::reply::Extent;
use dumbwaiter_protocols::nbd::wire::{STATE_HOLE, STATE_ZERO};
use rustix::fs::{Advice, SeekFrom, fadvise, seek};

use crate::Error;

/// Extents of one reply.
const MAX_EXTENTS: usize = 1024;

/// Hints that may wait for the thread; more are dropped, as hints may be.
const MAX_HINTS: u32 = 64;

/// A question to the thread.
pub(crate) enum StatusQuestion {
    /// The extents of a range of the target.
    Extents { token: u64, offset: u64, length: u32, one: bool },
    /// The range will be read soon.
    Cache { offset: u64, length: u32 },
}

/// An answer to [`StatusQuestion::Extents`].
pub(crate) struct StatusAnswer {
    pub(crate) token: u64,
    pub(crate) extents: Vec<Extent>,
}

/// The thread that asks the file system.
pub(crate) struct StatusThread {
    questions: Option<Sender<StatusQuestion>>,
    pub(crate) answers: Receiver<StatusAnswer>,
    /// Hints that wait.
    hints: Arc<AtomicU32>,
    thread: Option<JoinHandle<()>>,
}

impl StatusThread {
    /// Starts it for `file`; it wakes the disk with each answer.
    pub(crate) fn start(file: File, waker: Waker) -> Result<StatusThread, Error> {
        let (questions, received) = channel::<StatusQuestion>();
        let (answer, answers) = channel();
        let hints = Arc::new(AtomicU32::new(0));
        let waiting = hints.clone();
        let work = move || {
            for question in received {
                match question {
                    StatusQuestion::Extents { token, offset, length, one } => {
                        let extents = extents(&file, offset, length, if one { 1 } else { MAX_EXTENTS });
                        if answer.send(StatusAnswer { token, extents }).is_err() {
                            return;
                        }
                        waker.wake();
                    }
                    StatusQuestion::Cache { offset, length } => {
                        waiting.fetch_sub(1, Ordering::Relaxed);
                        // A hint: a file system that cannot do it does no harm.
                        let _ = fadvise(&file, offset, std::num::NonZeroU64::new(u64::from(length)), Advice::WillNeed);
                    }
                }
            }
        };
        let thread = std::thread::Builder::new().name("block-status".into()).spawn(work);
        let thread = thread.map_err(Error::io("cannot start a thread"))?;
        Ok(StatusThread { questions: Some(questions), answers, hints, thread: Some(thread) })
    }

    /// Asks the thread. A client has few questions under way, but hints are answered at once: their number is bounded here.
    pub(crate) fn ask(&self, question: StatusQuestion) {
        if matches!(question, StatusQuestion::Cache { .. }) && self.hints.fetch_add(1, Ordering::Relaxed) >= MAX_HINTS {
            self.hints.fetch_sub(1, Ordering::Relaxed);
            return;
        }
        if let Some(questions) = &self.questions {
            // It ends only with this struct.
            let _ = questions.send(question);
        }
    }
}

impl Drop for StatusThread {
    fn drop(&mut self) {
        self.questions = None;
        if let Some(thread) = self.thread.take() {
            // It has nothing to report.
            let _ = thread.join();
        }
    }
}

/// The extents of `length` bytes from `offset` on, `most` at most, cut at the end of the range. Where the file system cannot
/// tell, everything is data.
fn extents(file: &File, offset: u64, length: u32, most: usize) -> Vec<Extent> {
    let (mut at, end) = (offset, offset + u64::from(length));
    let mut found: Vec<Extent> = Vec::new();
    while at < end && found.len() < most {
        // Behind the last data there is none: ENXIO.
        let data = match seek(file, SeekFrom::Data(at)) {
            Ok(data) => data,
            Err(rustix::io::Errno::NXIO) => end,
            Err(_) => at,
        };
        let (next, status) = if data > at {
            (data, STATE_HOLE | STATE_ZERO)
        } else {
            (seek(file, SeekFrom::Hole(at)).unwrap_or(end), 0)
        };
        let next = if next > at { next.min(end) } else { end };
        // Whole sectors: a hole that begins within one is data up to the next.
        let next = if next < end { next.next_multiple_of(512).min(end) } else { end };
        found.push(Extent { length: (next - at) as u32, status });
        at = next;
    }
    found
}

#[cfg(test)]
mod tests {
    use std::io::{Seek, Write};

    use super::*;

    #[test]
    fn holes_and_data_cover_the_range_without_a_gap() {
        let mut file = tempfile::tempfile().unwrap();
        file.set_len(1 << 20).unwrap();
        file.seek(std::io::SeekFrom::Start(256 << 10)).unwrap();
        file.write_all(&vec![1; 64 << 10]).unwrap();
        let all = extents(&file, 0, 1 << 20, MAX_EXTENTS);
        assert_eq!(all.iter().map(|e| e.length).sum::<u32>(), 1 << 20);
        let data: Vec<_> = all.iter().filter(|e| e.status == 0).collect();
        assert!(data.iter().map(|e| e.length).sum::<u32>() >= 64 << 10);
        assert_eq!(extents(&file, 4096, 8192, 1).len(), 1);
        assert_eq!(extents(&file, 4096, 8192, 1)[0].length, 8192, "one extent ends with the request");
    }
}
