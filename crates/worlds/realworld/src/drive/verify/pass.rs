//! Reads everything back that was written.

use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};

use dumbwaiter_path::Buffer;

use super::findings::Verified;
use super::journal::Floors;
use crate::drive::{Error, Target};

/// Bytes read at once.
const PASS_BYTES: usize = 1 << 20;

/// Reads and judges the blocks of the table that lie in `ranges`. Where it is cancelled, the others are counted as not judged.
pub(super) fn pass(
    target: &Target,
    floors: &Floors,
    ranges: impl Iterator<Item = Range<u64>>,
    (block, stamp): (u64, u64),
    cancel: &AtomicBool,
    found: &mut Verified,
) -> Result<(), Error> {
    let mut buffer = Buffer::new(PASS_BYTES.max(block as usize));
    let most = (PASS_BYTES as u64 / block).max(1);
    let known = |b: &u64| floors.floor(*b).load(Ordering::Acquire) > 0;
    for Range { start: mut next, end } in ranges {
        while next < end {
            if !known(&next) {
                next += 1;
                continue;
            }
            let to = next + (next..(next + most).min(end)).take_while(known).count() as u64;
            let bytes = (to - next) * block;
            if cancel.load(Ordering::Relaxed) {
                found.unsettled += to - next;
                next = to;
                continue;
            }
            let data = &mut buffer[..bytes as usize];
            match target.disk().file().read_exact_at(data, next * block) {
                Ok(()) => {
                    for (chunk, b) in data.chunks(block as usize).zip(next..) {
                        found.judge(chunk, b, stamp, floors.floor(b).load(Ordering::Acquire));
                    }
                }
                Err(e) => {
                    found.unreadable += to - next;
                    found.wrong(format!("{bytes} bytes at byte {} cannot be read: {e}", next * block));
                }
            }
            next = to;
        }
    }
    Ok(())
}
