//! Where the data of an I/O lies: in the disk's own memory, in a buffer that travels with the I/O, or in the caller's pieces.
#![allow(unsafe_code)]

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// Buffers are aligned to this many bytes, more than any device asks for.
pub const ALIGN: usize = 4096;
/// Most pieces of one I/O (Linux: UIO_MAXIOV).
pub const MAX_IOVECS: usize = 1024;
/// A buffer of at least this many bytes is a mapping of its own: the system has its memory back as soon as it is dropped, and pages that
/// were never touched take none. An allocator would keep it, between smaller pieces that are still in use.
const MAPPED_BYTES: usize = 64 << 10;

/// Memory aligned for direct I/O; all 0 when it is made.
pub struct Buffer {
    start: NonNull<u8>,
    len: usize,
    /// Bytes that were allocated.
    capacity: usize,
}

// SAFETY: the memory belongs to the buffer alone.
unsafe impl Send for Buffer {}
// SAFETY: shared references only read.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// A buffer of `len` bytes, all 0.
    pub fn new(len: usize) -> Buffer {
        let layout = Buffer::layout(len);
        let start = match Buffer::is_mapped(len) {
            true => map(layout.size()),
            // SAFETY: the layout has a size above 0.
            false => NonNull::new(unsafe { alloc_zeroed(layout) }),
        };
        let Some(start) = start else { handle_alloc_error(layout) };
        Buffer { start, len, capacity: len }
    }

    fn is_mapped(capacity: usize) -> bool {
        capacity >= MAPPED_BYTES
    }

    /// Bytes that it can have at most.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Makes it `len` bytes long, its capacity at most. Bytes beyond a smaller length keep their content.
    pub fn set_len(&mut self, len: usize) {
        self.len = len.min(self.capacity);
    }

    fn layout(len: usize) -> Layout {
        let pages = len.max(1).next_multiple_of(ALIGN);
        // More than the address space holds: no allocator has it.
        Layout::from_size_align(pages, ALIGN).unwrap_or_else(|_| handle_alloc_error(Layout::new::<u8>()))
    }

    /// A view for the kernel.
    fn as_iovec(&self) -> libc::iovec {
        libc::iovec { iov_base: self.start.as_ptr().cast(), iov_len: self.len }
    }
}

impl Deref for Buffer {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: `len` bytes of ours, initialised when they were allocated.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let layout = Buffer::layout(self.capacity);
        match Buffer::is_mapped(self.capacity) {
            // SAFETY: the whole of a mapping that `map` made, to which no reference exists.
            true => drop(unsafe { libc::munmap(self.start.as_ptr().cast(), layout.size()) }),
            // SAFETY: allocated with this layout.
            false => unsafe { dealloc(self.start.as_ptr(), layout) },
        }
    }
}

/// New memory of the system's, all 0; `None` if it has no more.
fn map(bytes: usize) -> Option<NonNull<u8>> {
    let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new private mapping.
    let start = unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, kind, -1, 0) };
    if start == libc::MAP_FAILED { None } else { NonNull::new(start.cast()) }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} bytes)", self.len)
    }
}

/// Pieces of the caller's memory, in the order of the data.
#[derive(Clone, Copy, Debug)]
pub struct Iovecs {
    first: *const libc::iovec,
    count: usize,
    bytes: u64,
}

impl Iovecs {
    /// Describes the caller's memory.
    ///
    /// # Safety
    /// Until the I/O's [`Event::Completed`](crate::Event::Completed) was returned, or the [`Disk`](crate::Disk) was dropped, the
    /// array and all the memory that it names must stay valid and in place; nobody may write to the memory of a write, nor
    /// touch the memory of a read. Forgetting the disk (`std::mem::forget`) ends no I/O.
    pub unsafe fn new(pieces: &[libc::iovec]) -> Iovecs {
        let bytes = pieces.iter().map(|piece| piece.iov_len as u64).sum();
        Iovecs { first: pieces.as_ptr(), count: pieces.len(), bytes }
    }

    fn pieces(&self) -> &[libc::iovec] {
        // SAFETY: by the promise given to `new` the array is still there.
        unsafe { std::slice::from_raw_parts(self.first, self.count) }
    }
}

/// The data of an I/O.
#[derive(Debug, Default)]
pub enum Data {
    /// The disk's own memory: writes carry arbitrary bytes, and what is read is discarded. For benchmarks, and for
    /// operations without data.
    #[default]
    Scratch,
    /// A buffer that the disk holds until the I/O is done and then gives back. As long as the I/O.
    Buffer(Buffer),
    /// The caller's memory. As long as the I/O in all, at most [`MAX_IOVECS`] pieces.
    Iovec(Iovecs),
    /// Nowhere: the scheduler orders the read, and the caller takes the bytes from the file itself once it is done. For data in
    /// the page cache ([`Target::is_in_memory`](crate::Target::is_in_memory)).
    InFile,
}

impl Data {
    /// Does it lie outside the disk's own memory?
    #[inline]
    pub(crate) fn is_foreign(&self) -> bool {
        !matches!(self, Data::Scratch)
    }

    /// Is it memory of the caller's?
    pub(crate) fn is_memory(&self) -> bool {
        matches!(self, Data::Buffer(_) | Data::Iovec(_))
    }

    /// Bytes, where it has a length of its own.
    pub(crate) fn bytes(&self) -> Option<u64> {
        match self {
            Data::Scratch | Data::InFile => None,
            Data::Buffer(buffer) => Some(buffer.len as u64),
            Data::Iovec(iovecs) => Some(iovecs.bytes),
        }
    }

    /// Pieces of memory.
    pub(crate) fn count(&self) -> usize {
        match self {
            Data::Iovec(iovecs) => iovecs.count,
            Data::Scratch | Data::InFile | Data::Buffer(_) => 1,
        }
    }

    /// Appends the `len` bytes from byte `from` on. Nothing of [`Data::Scratch`] and [`Data::InFile`], which have no place of their own.
    pub(crate) fn append_to(&self, from: u64, len: u64, out: &mut Vec<libc::iovec>) {
        match self {
            Data::Scratch | Data::InFile => {}
            Data::Buffer(buffer) => append(&[buffer.as_iovec()], from, len, out),
            Data::Iovec(iovecs) => append(iovecs.pieces(), from, len, out),
        }
    }
}

fn append(pieces: &[libc::iovec], mut from: u64, mut len: u64, out: &mut Vec<libc::iovec>) {
    for piece in pieces {
        let all = piece.iov_len as u64;
        if from >= all {
            from -= all;
            continue;
        }
        if len == 0 {
            return;
        }
        let part = (all - from).min(len);
        out.push(libc::iovec { iov_base: piece.iov_base.wrapping_byte_add(from as usize), iov_len: part as usize });
        len -= part;
        from = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(data: &Data, from: u64, len: u64) -> Vec<(usize, usize)> {
        let mut out = Vec::new();
        data.append_to(from, len, &mut out);
        out.iter().map(|piece| (piece.iov_base as usize, piece.iov_len)).collect()
    }

    #[test]
    fn a_buffer_is_aligned_zeroed_and_can_be_empty() {
        for len in [0, 1, 4096, 5000, MAPPED_BYTES - 1, MAPPED_BYTES, 1_000_000] {
            let mut buffer = Buffer::new(len);
            assert_eq!((buffer.len(), buffer.as_ptr() as usize % ALIGN), (len, 0));
            assert!(buffer.iter().all(|byte| *byte == 0));
            buffer.fill(1);
        }
    }

    #[test]
    fn a_part_of_an_io_is_cut_out_of_its_pieces() {
        let memory = [0u8; 100];
        let at = memory.as_ptr() as usize;
        let piece = |from: usize, len| libc::iovec { iov_base: (at + from) as *mut _, iov_len: len };
        let pieces = [piece(0, 10), piece(50, 0), piece(20, 30)];
        // SAFETY: no I/O is made of it.
        let data = Data::Iovec(unsafe { Iovecs::new(&pieces) });
        assert_eq!((data.bytes(), data.count()), (Some(40), 3));
        assert_eq!(cut(&data, 0, 40), [(at, 10), (at + 20, 30)]);
        assert_eq!(cut(&data, 5, 10), [(at + 5, 5), (at + 20, 5)]);
        assert_eq!(cut(&data, 10, 30), [(at + 20, 30)]);
        assert_eq!(cut(&data, 39, 1), [(at + 49, 1)]);
        assert_eq!(cut(&Data::Scratch, 0, 40), []);
        let buffer = Buffer::new(64);
        let at = buffer.as_ptr() as usize;
        assert_eq!(cut(&Data::Buffer(buffer), 16, 32), [(at + 16, 32)]);
    }
}
