//! One io_uring: set-up with what the kernel has, registered file and buffers, and one system call that submits and waits.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, RawFd};

use dumbwaiter_block::Nanos;
use io_uring::types::{SubmitArgs, Timespec};
use io_uring::{EnterFlags, IoUring, Parameters, Probe, cqueue, opcode, squeue};

use crate::arena::Arena;

const IOPOLL: u32 = 1;
const SQPOLL: u32 = 1 << 1;
const CLAMP: u32 = 1 << 4;
const COOP_TASKRUN: u32 = 1 << 8;
const TASKRUN_FLAG: u32 = 1 << 9;
const SINGLE_ISSUER: u32 = 1 << 12;
const DEFER_TASKRUN: u32 = 1 << 13;
/// Linux 6.13; the `io-uring` crate has no setter for it.
const HYBRID_IOPOLL: u32 = 1 << 17;

const REGISTER_RING_FDS: u32 = 20;
const UNREGISTER_RING_FDS: u32 = 21;

/// `struct io_uring_rsrc_update` of `linux/io_uring.h`.
#[repr(C)]
struct Update {
    offset: u32,
    resv: u32,
    data: u64,
}

/// Idle time after which the kernel's submission thread sleeps, ms.
const SQPOLL_IDLE_MS: u32 = 50;

/// `struct io_uring_params` of `linux/io_uring.h`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct RawParameters {
    sq_entries: u32,
    cq_entries: u32,
    flags: u32,
    sq_thread_cpu: u32,
    sq_thread_idle: u32,
    features: u32,
    wq_fd: u32,
    resv: [u32; 3],
    sq_off: [u64; 5],
    cq_off: [u64; 5],
}

/// How the kernel finds completions for a ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum RingMode {
    /// By interrupts.
    #[default]
    Interrupt,
    /// It polls.
    Iopoll,
    /// It sleeps, then polls.
    HybridIopoll,
}

/// A ring of one thread.
pub(crate) struct Ring {
    ring: IoUring,
    /// As registered with the kernel, which saves it a look-up per call; or the descriptor itself.
    enter: RawFd,
    flags: EnterFlags,
    sqpoll: bool,
    polled: bool,
    /// Entries pushed and not yet handed over.
    pending: u32,
    min_timeout: bool,
    ext_arg: bool,
    /// The kernel says when completions wait for a call.
    tells_of_work: bool,
    #[cfg(test)]
    pub(crate) refuse_next_push: bool,
}

fn setup(entries: u32, flags: u32) -> io::Result<IoUring> {
    let mut p = RawParameters { flags: flags | CLAMP, sq_thread_idle: SQPOLL_IDLE_MS, ..RawParameters::default() };
    // SAFETY: `p` has the layout of the kernel's structure and lives over the call.
    let fd = unsafe { libc::syscall(libc::SYS_io_uring_setup, entries, &raw mut p) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `Parameters` is a transparent wrapper over the kernel's structure, which the kernel has just filled in for this
    // descriptor; the descriptor is ours.
    unsafe { IoUring::from_fd(fd as RawFd, std::mem::transmute::<RawParameters, Parameters>(p)) }
}

impl Ring {
    /// A ring for this thread, with the best that this kernel has.
    pub(crate) fn new(entries: u32, mode: RingMode, sqpoll: bool) -> io::Result<Ring> {
        let polled = match mode {
            RingMode::Interrupt => 0,
            RingMode::Iopoll => IOPOLL,
            RingMode::HybridIopoll => IOPOLL | HYBRID_IOPOLL,
        };
        // Best first: completions run when we ask (6.1), cooperatively (5.19), whenever (before).
        let flag_sets: &[u32] = if sqpoll {
            &[SQPOLL | SINGLE_ISSUER, SQPOLL]
        } else {
            &[SINGLE_ISSUER | DEFER_TASKRUN | COOP_TASKRUN | TASKRUN_FLAG, COOP_TASKRUN | TASKRUN_FLAG, 0]
        };
        let mut result = Err(io::Error::from_raw_os_error(libc::EINVAL));
        let mut tells_of_work = false;
        for flags in flag_sets {
            tells_of_work = flags & TASKRUN_FLAG != 0 && mode == RingMode::Interrupt;
            result = setup(entries, flags | polled);
            match &result {
                Err(e) if e.raw_os_error() == Some(libc::EINVAL) => {}
                _ => break,
            }
        }
        let ring = result?;
        let fd = ring.as_raw_fd();
        let mut flags = EnterFlags::empty();
        let enter = match register_ring(fd) {
            Some(index) => {
                flags |= EnterFlags::REGISTERED_RING;
                index
            }
            None => fd,
        };
        Ok(Ring {
            enter,
            flags,
            sqpoll,
            polled: mode != RingMode::Interrupt,
            pending: 0,
            min_timeout: ring.params().is_feature_min_timeout(),
            ext_arg: ring.params().is_feature_ext_arg(),
            tells_of_work,
            #[cfg(test)]
            refuse_next_push: false,
            ring,
        })
    }

    /// Registers the file as number 0. After that only [`io_uring::types::Fixed`] entries.
    pub(crate) fn register_file(&self, fd: RawFd) -> io::Result<()> {
        self.ring.submitter().register_files(&[fd])
    }

    /// Registers the buffers as number 0.
    pub(crate) fn register_buffers(&self, arena: &Arena) -> io::Result<()> {
        let (start, len) = arena.registered();
        let whole = libc::iovec { iov_base: start.cast(), iov_len: len };
        // SAFETY: the owner of both drains the ring before it drops the arena.
        unsafe { self.ring.submitter().register_buffers(&[whole]) }
    }

    /// Can it wait for several completions, and after some time for one only?
    pub(crate) fn has_min_wait(&self) -> bool {
        self.min_timeout && !self.polled
    }

    /// Does the kernel know messages from this ring to another, and answers that are left out?
    pub(crate) fn passes_messages(&self) -> bool {
        let mut probe = Probe::new();
        self.ring.params().is_feature_skip_cqe_on_success()
            && self.ring.submitter().register_probe(&mut probe).is_ok()
            && probe.is_supported(opcode::MsgRingData::CODE)
    }

    /// Does the kernel poll for completions?
    pub(crate) fn polled(&self) -> bool {
        self.polled
    }

    /// Queues an entry; hands over what is queued if there is no room.
    ///
    /// # Safety
    /// The buffer that it names must live, and not be touched, until its completion was reaped.
    pub(crate) unsafe fn push(&mut self, entry: &squeue::Entry) -> io::Result<()> {
        #[cfg(test)]
        if std::mem::take(&mut self.refuse_next_push) {
            return Err(io::Error::from_raw_os_error(libc::EBADF));
        }
        loop {
            // SAFETY: by the caller's promise.
            if unsafe { self.ring.submission().push(entry) }.is_ok() {
                self.pending += 1;
                return Ok(());
            }
            self.enter(0, None, 0)?;
        }
    }

    /// Entries queued and not yet handed over.
    pub(crate) fn pending(&self) -> u32 {
        self.pending
    }

    /// Hands over what is queued, without looking for completions: the device works while the caller does the rest.
    pub(crate) fn submit(&mut self) -> io::Result<()> {
        if self.pending == 0 {
            return Ok(());
        }
        if self.sqpoll {
            return self.enter(0, None, 0);
        }
        self.call(self.pending, 0, self.flags, std::ptr::null(), 0)
    }

    /// Hands over what is queued and lets the kernel bring what is there, without waiting; no call where neither is due.
    pub(crate) fn look(&mut self) -> io::Result<()> {
        match self.tells_of_work && self.pending == 0 && !self.has_work() {
            true => Ok(()),
            false => self.enter(0, None, 0),
        }
    }

    /// Does the kernel hold completions that a call would bring? Never, where it does not tell.
    pub(crate) fn has_work(&mut self) -> bool {
        let submission = self.ring.submission();
        self.tells_of_work && (submission.taskrun() || submission.cq_overflow())
    }

    /// Hands over what is queued and waits until `want` completions can be reaped: not longer than `timeout`, and after
    /// `min_wait_us`, which never outlasts the timeout, for one only. Returns early at a signal.
    pub(crate) fn enter(&mut self, want: u32, timeout: Option<Nanos>, min_wait_us: u32) -> io::Result<()> {
        let mut flags = self.flags | EnterFlags::GETEVENTS;
        let mut submit = self.pending;
        if self.sqpoll {
            submit = 0;
            self.pending = 0;
            if self.ring.submission().need_wakeup() {
                flags |= EnterFlags::SQ_WAKEUP;
            } else if want == 0 && !self.polled {
                return Ok(());
            }
        }
        if let Some(timeout) = timeout.filter(|_| want > 0 && !self.ext_arg) {
            return self.enter_and_poll(submit, want, flags, timeout);
        }
        // The kernel looks at the timeout only after the minimal wait.
        let min_wait_us =
            timeout.map_or(min_wait_us, |t| min_wait_us.min((t.0 / 1_000).min(u64::from(u32::MAX)) as u32));
        let spec = timeout.map(|t| Timespec::new().sec(t.0 / 1_000_000_000).nsec((t.0 % 1_000_000_000) as u32));
        let mut args = SubmitArgs::new();
        if let Some(spec) = &spec {
            args = args.timespec(spec);
        }
        if min_wait_us > 0 {
            args = args.min_wait_usec(min_wait_us);
        }
        let extended = self.ext_arg && (spec.is_some() || min_wait_us > 0);
        let (arg, size) = if extended {
            flags |= EnterFlags::EXT_ARG;
            ((&raw const args).cast::<libc::c_void>(), size_of_val(&args))
        } else {
            (std::ptr::null(), 0)
        };
        self.call(submit, want, flags, arg, size)
    }

    /// Before Linux 5.11 the call knows no timeout, but the ring's descriptor can be polled.
    #[cold]
    fn enter_and_poll(&mut self, submit: u32, want: u32, flags: EnterFlags, timeout: Nanos) -> io::Result<()> {
        self.call(submit, 0, flags, std::ptr::null(), 0)?;
        if self.ring.completion().len() >= want as usize {
            return Ok(());
        }
        let mut ring = libc::pollfd { fd: self.ring.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        let time = libc::timespec {
            tv_sec: (timeout.0 / 1_000_000_000) as libc::time_t,
            tv_nsec: (timeout.0 % 1_000_000_000) as libc::c_long,
        };
        // SAFETY: one descriptor and one time, which live over the call.
        let found = unsafe { libc::ppoll(&raw mut ring, 1, &raw const time, std::ptr::null()) };
        if found < 0 {
            let error = io::Error::last_os_error();
            return if error.kind() == io::ErrorKind::Interrupted { Ok(()) } else { Err(error) };
        }
        self.call(0, 0, self.flags | EnterFlags::GETEVENTS, std::ptr::null(), 0)
    }

    fn call(
        &mut self,
        submit: u32,
        want: u32,
        flags: EnterFlags,
        arg: *const libc::c_void,
        size: usize,
    ) -> io::Result<()> {
        // SAFETY: the descriptor is ours, and the caller's arguments live over the call.
        let took =
            unsafe { libc::syscall(libc::SYS_io_uring_enter, self.enter, submit, want, flags.bits(), arg, size) };
        if took >= 0 {
            self.pending -= (took as u32).min(self.pending);
            return Ok(());
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            // Out of time, a signal, or nothing can be submitted before something is reaped. What was handed over is known
            // from the ring.
            Some(libc::ETIME | libc::EINTR | libc::EAGAIN | libc::EBUSY) => {
                self.pending = self.ring.submission().len() as u32;
                Ok(())
            }
            _ => Err(error),
        }
    }

    /// Takes every completion that is there: its `user_data`, its result, and whether the entry stays armed.
    pub(crate) fn reap(&mut self, mut each: impl FnMut(u64, i32, bool)) {
        for entry in self.ring.completion() {
            each(entry.user_data(), entry.result(), cqueue::more(entry.flags()));
        }
    }

    /// Is there anything to reap?
    pub(crate) fn ready(&mut self) -> bool {
        !self.ring.completion().is_empty()
    }
}

fn register_ring(fd: RawFd) -> Option<RawFd> {
    let mut update = Update { offset: u32::MAX, resv: 0, data: fd as u64 };
    // SAFETY: one update, which lives over the call.
    let done = unsafe { libc::syscall(libc::SYS_io_uring_register, fd, REGISTER_RING_FDS, &raw mut update, 1) };
    (done == 1).then_some(update.offset as RawFd)
}

impl Drop for Ring {
    fn drop(&mut self) {
        // The kernel takes a ring apart some time later; the file must not be in use until then.
        let _ = self.ring.submitter().unregister_files();
        let _ = self.ring.submitter().unregister_buffers();
        if self.enter != self.ring.as_raw_fd() {
            let update = Update { offset: self.enter as u32, resv: 0, data: 0 };
            // SAFETY: one update, which lives over the call; a failure leaves a slot taken until the thread ends.
            unsafe {
                libc::syscall(
                    libc::SYS_io_uring_register,
                    self.ring.as_raw_fd(),
                    UNREGISTER_RING_FDS,
                    &raw const update,
                    1,
                );
            }
        }
    }
}

/// Why the kernel gives no ring, and what to do, in one line.
pub(crate) fn why_no_ring(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::ENOSYS) => {
            "io_uring is not there: the kernel is older than 5.1 or built without it, or a container's seccomp profile hides it (for Docker: --security-opt seccomp=unconfined)".into()
        }
        Some(libc::EPERM | libc::EACCES) => {
            let disabled = std::fs::read_to_string("/proc/sys/kernel/io_uring_disabled").unwrap_or_default();
            match disabled.trim() {
                "1" => "io_uring is only for root and the group of kernel.io_uring_group here: run as root, or `sysctl kernel.io_uring_disabled=0`".into(),
                "2" => "io_uring is switched off here: `sysctl kernel.io_uring_disabled=0` as root allows it".into(),
                _ => "io_uring is forbidden here, as by a container's seccomp profile (for Docker: --security-opt seccomp=unconfined) or a security module".into(),
            }
        }
        Some(libc::ENOMEM) => "io_uring gets no memory: raise the limit of locked memory (`ulimit -l`)".into(),
        Some(libc::EMFILE | libc::ENFILE) => "io_uring gets no file descriptor: raise the limit (`ulimit -n`)".into(),
        _ => format!("io_uring cannot be set up: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::time::{Duration, Instant};

    use io_uring::types;

    use super::*;

    /// A ring in which one read waits for a pipe.
    fn waiting_ring(buffer: &mut [u8; 8]) -> (Ring, io::PipeReader, io::PipeWriter) {
        let (reader, writer) = io::pipe().unwrap();
        let mut ring = Ring::new(8, RingMode::Interrupt, false).unwrap();
        let read = opcode::Read::new(types::Fd(reader.as_raw_fd()), buffer.as_mut_ptr(), 8).build().user_data(7);
        // SAFETY: the caller keeps the buffer until the completion was reaped.
        unsafe { ring.push(&read).unwrap() };
        (ring, reader, writer)
    }

    fn finish(mut ring: Ring, mut writer: io::PipeWriter) {
        writer.write_all(&[1; 8]).unwrap();
        let mut seen = Vec::new();
        while seen.is_empty() {
            ring.enter(1, None, 0).unwrap();
            ring.reap(|user_data, result, more| seen.push((user_data, result, more)));
        }
        assert_eq!(seen, [(7, 8, false)]);
    }

    #[test]
    fn a_timeout_ends_a_wait_also_where_the_kernel_has_no_extended_arguments() {
        for ext_arg in [true, false] {
            let mut buffer = [0; 8];
            let (mut ring, _reader, writer) = waiting_ring(&mut buffer);
            ring.ext_arg &= ext_arg;
            // Without the timeout this would never return.
            ring.enter(1, Some(Nanos::from_ms(2)), 0).unwrap();
            assert!(!ring.ready());
            finish(ring, writer);
        }
    }

    #[test]
    fn a_minimal_wait_does_not_outlast_the_timeout() {
        let mut buffer = [0; 8];
        let (mut ring, _reader, writer) = waiting_ring(&mut buffer);
        if !ring.has_min_wait() {
            eprintln!("skipped: this kernel has no minimal wait (Linux 6.12)");
        }
        let began = Instant::now();
        // The kernel takes the minimal wait first: an hour of it would not end here.
        ring.enter(2, Some(Nanos::from_ms(1)), u32::MAX).unwrap();
        assert!(began.elapsed() < Duration::from_secs(600));
        finish(ring, writer);
    }
}
