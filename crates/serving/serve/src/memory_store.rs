//! Data of a device without a medium: memory where something was written, zeroes elsewhere.

use std::collections::BTreeMap;

use dumbwaiter_block::Errno;

/// Bytes of a piece of memory.
const PIECE: u64 = 64 << 10;
/// No space left on device.
const ENOSPC: Errno = Errno(28);

/// Sparse memory with a bound.
pub(crate) struct MemoryStore {
    pieces: BTreeMap<u64, Box<[u8]>>,
    most: u64,
    /// Writes are accepted and not kept.
    forgets: bool,
}

impl MemoryStore {
    /// Memory for at most `bytes` of data.
    pub(crate) fn new(bytes: u64) -> MemoryStore {
        MemoryStore { pieces: BTreeMap::new(), most: bytes / PIECE, forgets: false }
    }

    /// No memory at all: it accepts every write and reads as zeroes.
    pub(crate) fn forgetful() -> MemoryStore {
        MemoryStore { forgets: true, ..MemoryStore::new(0) }
    }

    pub(crate) fn read(&self, at: u64, into: &mut [u8]) {
        for (piece, from, part) in parts(at, into.len() as u64) {
            let (from, target) = (from as usize, &mut into[part.start as usize..part.end as usize]);
            match self.pieces.get(&piece) {
                Some(bytes) => target.copy_from_slice(&bytes[from..from + target.len()]),
                None => target.fill(0),
            }
        }
    }

    pub(crate) fn write(&mut self, at: u64, data: &[u8]) -> Result<(), Errno> {
        if self.forgets {
            return Ok(());
        }
        for (piece, from, part) in parts(at, data.len() as u64) {
            let source = &data[part.start as usize..part.end as usize];
            let room = (self.pieces.len() as u64) < self.most;
            let bytes = match self.pieces.entry(piece) {
                std::collections::btree_map::Entry::Occupied(entry) => entry.into_mut(),
                std::collections::btree_map::Entry::Vacant(entry) if room => {
                    entry.insert(vec![0; PIECE as usize].into())
                }
                std::collections::btree_map::Entry::Vacant(_) => return Err(ENOSPC),
            };
            bytes[from as usize..from as usize + source.len()].copy_from_slice(source);
        }
        Ok(())
    }

    pub(crate) fn zero(&mut self, at: u64, bytes: u64) {
        let end = at.saturating_add(bytes);
        let touched: Vec<u64> =
            self.pieces.range(at / PIECE..=end.saturating_sub(1) / PIECE).map(|(piece, _)| *piece).collect();
        for piece in touched {
            let (first, last) = (piece * PIECE, (piece + 1) * PIECE);
            if at <= first && last <= end {
                self.pieces.remove(&piece);
            } else if let Some(memory) = self.pieces.get_mut(&piece) {
                memory[(at.max(first) - first) as usize..(end.min(last) - first) as usize].fill(0);
            }
        }
    }
}

/// The pieces that a range touches: number, first byte in it, and which bytes of the range.
fn parts(at: u64, len: u64) -> impl Iterator<Item = (u64, u64, std::ops::Range<u64>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        (done < len).then(|| {
            let here = at + done;
            let count = (PIECE - here % PIECE).min(len - done);
            let range = done..done + count;
            done += count;
            (here / PIECE, here % PIECE, range)
        })
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_reads_what_was_written_last(ops in prop::collection::vec((0u8..2, 0u64..300_000, 0u64..150_000, any::<u8>()), 1..20)) {
            let (mut store, mut model) = (MemoryStore::new(1 << 20), vec![0u8; 500_000]);
            for (op, at, len, byte) in ops {
                let range = at as usize..(at + len) as usize;
                if op == 0 {
                    store.write(at, &vec![byte; len as usize]).unwrap();
                    model[range.clone()].fill(byte);
                } else {
                    store.zero(at, len);
                    model[range.clone()].fill(0);
                }
                let mut read = vec![1; 500_000];
                store.read(0, &mut read);
                prop_assert!(read == model);
            }
        }
    }

    #[test]
    fn a_full_store_refuses_new_pieces_only() {
        let mut store = MemoryStore::new(PIECE);
        store.write(0, &[1; 10]).unwrap();
        assert_eq!(store.write(PIECE, &[1]), Err(ENOSPC));
        store.write(5, &[2; 10]).unwrap();
        store.zero(0, PIECE);
        store.write(PIECE, &[1]).unwrap();
    }
}
