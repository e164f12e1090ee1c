//! Priority of a thread's I/O, by the system calls `ioprio_set` and `ioprio_get`.
#![allow(unsafe_code)]

use dumbwaiter_block::Ioprio;

use crate::Error;

/// `IOPRIO_WHO_PROCESS`: one thread, in spite of its name.
const ONE_THREAD: libc::c_int = 1;

/// Sets the priority of thread `tid`; 0 is the calling thread. Realtime needs `CAP_SYS_ADMIN` or `CAP_SYS_NICE`.
pub fn set(tid: u32, priority: Ioprio) -> Result<(), Error> {
    // SAFETY: three integers, no memory.
    let done = unsafe {
        libc::syscall(libc::SYS_ioprio_set, ONE_THREAD, tid as libc::c_int, libc::c_int::from(priority.0 as i16))
    };
    if done == 0 { Ok(()) } else { Err(refused(format!("set the I/O priority {priority} of"), tid)) }
}

/// Priority of thread `tid`; 0 is the calling thread. Where none was set, the kernel may report the one that follows from
/// the thread's nice value.
pub fn get(tid: u32) -> Result<Ioprio, Error> {
    // SAFETY: two integers, no memory.
    let got = unsafe { libc::syscall(libc::SYS_ioprio_get, ONE_THREAD, tid as libc::c_int) };
    u16::try_from(got).map(Ioprio).map_err(|_| refused("read the I/O priority of".into(), tid))
}

fn refused(doing: String, tid: u32) -> Error {
    let cause = std::io::Error::last_os_error();
    let who = if tid == 0 { "this thread".to_owned() } else { format!("thread {tid}") };
    Error::Refused(format!("cannot {doing} {who}: {cause}"))
}

#[cfg(test)]
mod tests {
    use dumbwaiter_block::IoClass;

    use super::*;

    #[test]
    fn a_thread_keeps_what_was_set_and_its_neighbour_is_untouched() {
        let before = get(0).unwrap();
        let other = std::thread::spawn(|| {
            set(0, Ioprio::new(IoClass::Idle, 7)).unwrap();
            get(0).unwrap()
        });
        assert_eq!(other.join().unwrap(), Ioprio::new(IoClass::Idle, 7));
        assert_eq!(get(0).unwrap(), before);
    }

    #[test]
    fn a_thread_that_is_none_is_named() {
        let said = set(0x3fff_ffff, Ioprio::DEFAULT).unwrap_err().to_string();
        assert!(said.contains("thread 1073741823") && said.contains("be/4"), "{said}");
    }
}
