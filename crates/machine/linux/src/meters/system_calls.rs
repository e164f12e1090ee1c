//! System calls of another process, counted by the kernel's tracepoint.
#![allow(unsafe_code)]

use std::fs::File;
use std::io::Read;
use std::os::fd::FromRawFd;
use std::path::Path;

/// Where tracefs may be mounted.
const PLACES: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
/// The tracepoint's number, below one of these.
const ID: &str = "events/raw_syscalls/sys_enter/id";
/// `PERF_TYPE_TRACEPOINT`.
const TRACEPOINT: u32 = 2;
/// Bit of `perf_event_attr`: threads that are started later are counted too.
const INHERIT: u64 = 1 << 1;

/// `struct perf_event_attr` of `linux/perf_event.h`, its first version.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    bp_type: u32,
    bp_addr: u64,
}

/// Counters of all threads of a process.
pub struct SystemCalls(Vec<File>);

impl SystemCalls {
    /// Begins to count. An error says what is missing, in one line.
    pub fn of(pid: u32) -> Result<SystemCalls, String> {
        let id = PLACES.iter().find_map(|place| std::fs::read_to_string(Path::new(place).join(ID)).ok());
        let Some(id) = id.and_then(|id| id.trim().parse::<u64>().ok()) else {
            return Err("tracefs is not mounted, or root is needed: mount -t tracefs nodev /sys/kernel/tracing".into());
        };
        let threads = std::fs::read_dir(format!("/proc/{pid}/task")).map_err(|e| format!("process {pid}: {e}"))?;
        let threads = threads.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
        let counters: std::io::Result<Vec<File>> = threads.map(|thread| count(id, thread)).collect();
        counters.map(SystemCalls).map_err(|e| format!("the kernel gives no counter of system calls: {e}"))
    }

    /// Calls so far.
    pub fn read(&self) -> Option<u64> {
        let mut sum = 0;
        for mut counter in &self.0 {
            let mut bytes = [0; 8];
            counter.read_exact(&mut bytes).ok()?;
            sum += u64::from_ne_bytes(bytes);
        }
        Some(sum)
    }
}

fn count(id: u64, thread: i32) -> std::io::Result<File> {
    let attributes = Attributes {
        kind: TRACEPOINT,
        size: size_of::<Attributes>() as u32,
        config: id,
        flags: INHERIT,
        ..Attributes::default()
    };
    // SAFETY: the attributes have the kernel's layout and live over the call.
    let fd = unsafe { libc::syscall(libc::SYS_perf_event_open, &raw const attributes, thread, -1, -1, 8u64) };
    // SAFETY: the descriptor is new and ours.
    if fd >= 0 { Ok(unsafe { File::from_raw_fd(fd as i32) }) } else { Err(std::io::Error::last_os_error()) }
}
