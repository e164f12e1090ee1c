//! Files that shrink while they are mapped, or have no huge page for a part of them. Touching what is missing raises SIGBUS, which would end the
//! server and all of its clients;
//! the handler here puts zeroes in place of the mapping and marks it, and its device ends.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, Once, PoisonError};

/// Mappings that can be watched at once.
const PLACES: usize = 4096;

/// A mapping whose file may shrink. Its length is 0 where there is none.
struct Watched {
    start: AtomicUsize,
    len: AtomicUsize,
    truncated: AtomicBool,
}

static TABLE: [Watched; PLACES] =
    [const { Watched { start: AtomicUsize::new(0), len: AtomicUsize::new(0), truncated: AtomicBool::new(false) } };
        PLACES];
static CHANGES: Mutex<()> = Mutex::new(());
static HANDLER: Once = Once::new();

/// Watches a mapping from now on; answers with its place in the table, or `None` if that is full.
pub(crate) fn watch(start: usize, len: usize) -> Option<usize> {
    HANDLER.call_once(install);
    let _one_at_a_time = CHANGES.lock().unwrap_or_else(PoisonError::into_inner);
    let place = TABLE.iter().position(|watched| watched.len.load(Ordering::Acquire) == 0)?;
    TABLE[place].truncated.store(false, Ordering::Release);
    TABLE[place].start.store(start, Ordering::Release);
    TABLE[place].len.store(len, Ordering::Release);
    Some(place)
}

pub(crate) fn forget(place: usize) {
    TABLE[place].len.store(0, Ordering::Release);
}

pub(crate) fn is_truncated(place: usize) -> bool {
    TABLE[place].truncated.load(Ordering::Relaxed)
}

fn install() {
    // SAFETY: a zeroed structure is a valid one, and the handler does what is allowed in a signal: atomics and system calls.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_bus_error as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_NODEFER | libc::SA_ONSTACK;
        libc::sigemptyset(&raw mut action.sa_mask);
        libc::sigaction(libc::SIGBUS, &raw const action, std::ptr::null_mut());
    }
}

/// Replaces the mapping at the address by zeroes. An address outside of all mappings ends the process as before.
extern "C" fn on_bus_error(_signal: libc::c_int, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid structure.
    let address = unsafe { (*info).si_addr() } as usize;
    for watched in &TABLE {
        let (start, len) = (watched.start.load(Ordering::Acquire), watched.len.load(Ordering::Acquire));
        if len == 0 || address < start || address - start >= len {
            continue;
        }
        watched.truncated.store(true, Ordering::Relaxed);
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_FIXED | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: the range is a mapping of ours, and stays one; only its content changes.
        let mapped = unsafe { libc::mmap(start as *mut libc::c_void, len, protection, flags, -1, 0) };
        if mapped != libc::MAP_FAILED {
            return;
        }
    }
    // SAFETY: plain calls; the fault comes again and ends the process.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = libc::SIG_DFL;
        libc::sigaction(libc::SIGBUS, &raw const action, std::ptr::null_mut());
    }
}
