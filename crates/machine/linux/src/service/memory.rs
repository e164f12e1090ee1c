//! Memory of a service that runs for long.
#![allow(unsafe_code)]

/// Gives what is free back to the system: reading a large configuration takes more memory than what is kept of it. Does nothing
/// where the allocator is not that of the GNU C library.
pub fn release_free_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: an integer, and no memory that is in use.
    unsafe {
        libc::malloc_trim(0);
    }
}
