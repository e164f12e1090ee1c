//! The CPUs that this program may use, and a thread that stays on one of them.
#![allow(unsafe_code)]

use std::io;

/// Numbers of the CPUs that this thread may run on; none where the kernel refuses the call.
pub(crate) fn allowed() -> Vec<usize> {
    // SAFETY: a plain set of bits, empty when all are zero.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: `set` lives over the call and is of the size given.
    let done = unsafe { libc::sched_getaffinity(0, size_of_val(&set), &raw mut set) };
    if done != 0 {
        return Vec::new();
    }
    // SAFETY: the numbers are within the set.
    (0..libc::CPU_SETSIZE as usize).filter(|cpu| unsafe { libc::CPU_ISSET(*cpu, &set) }).collect()
}

/// From now on this thread runs on this CPU only.
pub(crate) fn stay_on(cpu: usize) -> io::Result<()> {
    // SAFETY: as above.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: a number that `allowed` gave, so it is within the set.
    unsafe { libc::CPU_SET(cpu, &mut set) };
    // SAFETY: `set` lives over the call and is of the size given; 0 is the calling thread.
    let done = unsafe { libc::sched_setaffinity(0, size_of_val(&set), &raw const set) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_pinned_thread_stays_on_its_cpu() {
        let all = super::allowed();
        assert!(!all.is_empty());
        for cpu in &all {
            let seen = std::thread::scope(|scope| {
                let there = scope.spawn(|| {
                    super::stay_on(*cpu).unwrap();
                    super::allowed()
                });
                there.join().unwrap()
            });
            assert_eq!(seen, [*cpu]);
        }
        assert_eq!(super::allowed(), all, "other threads are where they were");
    }
}
