//! Zeroes for devices that cannot zero by themselves: the same few pages for every write of them, so that no client can make the server
//! hold memory for what it never sent.
#![allow(unsafe_code)]

use dumbwaiter_path::{Buffer, Data, Iovecs};

/// Bytes of zeroes that are kept.
const PIECE_BYTES: usize = 64 << 10;
/// Pieces of one write.
const PIECES: usize = 16;

/// Zeroed memory that writes of any length name. It must outlive the disk that carries the writes out.
pub(crate) struct Zeroes {
    _memory: Buffer,
    whole: Vec<libc::iovec>,
    /// The one piece of a short write, by the number of its operation.
    #[expect(clippy::vec_box, reason = "the kernel has their addresses while the list grows")]
    short: Vec<Box<libc::iovec>>,
}

impl Zeroes {
    pub(crate) fn new() -> Zeroes {
        let mut memory = Buffer::new(PIECE_BYTES);
        let piece = libc::iovec { iov_base: memory.as_mut_ptr().cast(), iov_len: PIECE_BYTES };
        Zeroes { _memory: memory, whole: vec![piece; PIECES], short: Vec::new() }
    }

    /// As many of `left` bytes as go into one write.
    pub(crate) fn portion(left: u32) -> u32 {
        let piece = PIECE_BYTES as u32;
        match left / piece {
            0 => left,
            pieces => pieces.min(PIECES as u32) * piece,
        }
    }

    /// The data of a write of such a portion, for the operation of this number.
    pub(crate) fn data(&mut self, operation: u32, portion: u32) -> Data {
        let pieces = portion as usize / PIECE_BYTES;
        let list = if pieces > 0 {
            &self.whole[..pieces]
        } else {
            let at = operation as usize;
            while self.short.len() <= at {
                self.short.push(Box::new(self.whole[0]));
            }
            self.short[at].iov_len = portion as usize;
            std::slice::from_ref(&*self.short[at])
        };
        // SAFETY: the lists and the memory stay where they are and are dropped after the disk; writes only read the memory.
        Data::Iovec(unsafe { Iovecs::new(list) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn portions_add_up_to_the_whole() {
        for all in [512u32, 4096, 65_536, 66_048, 1 << 20, (5 << 20) + 512] {
            let (mut zeroes, mut left, mut writes) = (Zeroes::new(), all, 0);
            while left > 0 {
                let portion = Zeroes::portion(left);
                assert!(portion > 0 && portion <= left);
                let Data::Iovec(_) = zeroes.data(writes, portion) else { panic!("no memory of its own") };
                (left, writes) = (left - portion, writes + 1);
            }
            assert!(writes <= all.div_ceil(1 << 20) + 2, "{writes} writes for {all} bytes");
        }
    }
}
