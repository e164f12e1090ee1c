//! CPU time and context switches of this process, of threads and of the whole system.
#![allow(unsafe_code)]

use std::ops::Sub;
use std::path::Path;

use crate::meters::files::{MeterError, folders, read};

/// Total CPU time and context switches; subtract two readings for an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct Usage {
    /// User time, s.
    pub usr_s: f64,
    /// System time, s.
    pub sys_s: f64,
    /// Voluntary context switches: a thread blocked.
    pub voluntary: u64,
    /// Involuntary context switches: a thread was preempted.
    pub involuntary: u64,
}

impl Sub for Usage {
    type Output = Usage;

    fn sub(self, before: Usage) -> Usage {
        Usage {
            usr_s: self.usr_s - before.usr_s,
            sys_s: self.sys_s - before.sys_s,
            voluntary: self.voluntary.saturating_sub(before.voluntary),
            involuntary: self.involuntary.saturating_sub(before.involuntary),
        }
    }
}

/// Usage of this process with all its threads, ended ones included (`getrusage`, resolution 1 us).
pub fn process() -> Usage {
    usage(libc::RUSAGE_SELF)
}

/// Usage of the calling thread (`getrusage`, resolution 1 us).
pub fn thread() -> Usage {
    usage(libc::RUSAGE_THREAD)
}

fn usage(who: libc::c_int) -> Usage {
    // SAFETY: plain numbers, for which all zeros are valid.
    let mut got: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes one `rusage`. With these two selectors the call cannot fail.
    unsafe { libc::getrusage(who, &raw mut got) };
    let seconds = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 * 1e-6;
    Usage {
        usr_s: seconds(got.ru_utime),
        sys_s: seconds(got.ru_stime),
        voluntary: got.ru_nvcsw as u64,
        involuntary: got.ru_nivcsw as u64,
    }
}

/// Sum of the usage of threads of this process, by thread id (`gettid`), from `/proc/self/task`. The resolution is a
/// kernel clock tick, mostly 10 ms.
///
/// # Errors
/// A thread that has ended: read it before.
pub fn threads(tids: &[u32]) -> Result<Usage, MeterError> {
    threads_in(Path::new("/proc/self/task"), tids, ticks_per_second())
}

/// Usage of another process with all its threads, from `/proc/PID`.
///
/// # Errors
/// A process that has ended.
pub fn other_process(pid: u32) -> Result<Usage, MeterError> {
    let dir = Path::new("/proc").join(pid.to_string());
    let mut sum = task(&dir, ticks_per_second())?;
    // `status` of a process counts the switches of its first thread only.
    (sum.voluntary, sum.involuntary) = (0, 0);
    for thread in folders(&dir.join("task")) {
        // The switches of a thread that ends meanwhile are lost.
        if let Ok((voluntary, involuntary)) = switches(&thread) {
            sum.voluntary += voluntary;
            sum.involuntary += involuntary;
        }
    }
    Ok(sum)
}

fn ticks_per_second() -> f64 {
    // SAFETY: a number in, a number out.
    let ticks = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    if ticks > 0 { ticks as f64 } else { 100.0 }
}

fn threads_in(dir: &Path, tids: &[u32], ticks: f64) -> Result<Usage, MeterError> {
    let mut sum = Usage::default();
    for tid in tids {
        let one = task(&dir.join(tid.to_string()), ticks)?;
        sum.usr_s += one.usr_s;
        sum.sys_s += one.sys_s;
        sum.voluntary += one.voluntary;
        sum.involuntary += one.involuntary;
    }
    Ok(sum)
}

fn task(dir: &Path, ticks: f64) -> Result<Usage, MeterError> {
    let stat = dir.join("stat");
    let text = read(&stat)?;
    // Behind the name, which is in parentheses and may hold anything, utime and stime are the 12th and 13th field.
    let times = text.rsplit_once(')').map(|(_, rest)| rest.split_whitespace().skip(11).take(2));
    let times: Option<Vec<u64>> = times.and_then(|t| t.map(|n| n.parse().ok()).collect());
    let Some([user, system]) = times.as_deref() else {
        return Err(MeterError(format!("{}: expected fields of a task, found \"{text}\"", stat.display())));
    };
    let (voluntary, involuntary) = switches(dir)?;
    Ok(Usage { usr_s: *user as f64 / ticks, sys_s: *system as f64 / ticks, voluntary, involuntary })
}

fn switches(dir: &Path) -> Result<(u64, u64), MeterError> {
    let status = dir.join("status");
    let text = read(&status)?;
    let field = |name: &str| {
        let value = text.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix(':')?.trim().parse().ok());
        value.ok_or_else(|| MeterError(format!("{}: no number at {name}", status.display())))
    };
    Ok((field("voluntary_ctxt_switches")?, field("nonvoluntary_ctxt_switches")?))
}

/// Time of all CPUs together, s, from `/proc/stat`; subtract two readings for an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct System {
    /// User time, niced programs included.
    pub usr_s: f64,
    /// System time.
    pub sys_s: f64,
    /// Interrupt time, soft interrupts included.
    pub irq_s: f64,
    /// Idle.
    pub idle_s: f64,
    /// Idle with I/O outstanding.
    pub iowait_s: f64,
    /// Stolen by the hypervisor.
    pub steal_s: f64,
}

impl Sub for System {
    type Output = System;

    fn sub(self, before: System) -> System {
        System {
            usr_s: self.usr_s - before.usr_s,
            sys_s: self.sys_s - before.sys_s,
            irq_s: self.irq_s - before.irq_s,
            idle_s: self.idle_s - before.idle_s,
            iowait_s: self.iowait_s - before.iowait_s,
            steal_s: self.steal_s - before.steal_s,
        }
    }
}

impl System {
    /// Fraction of the time in which CPUs were busy, 0 to 1; 0 for an empty interval.
    pub fn busy(&self) -> f64 {
        let busy = self.usr_s + self.sys_s + self.irq_s;
        let all = busy + self.idle_s + self.iowait_s + self.steal_s;
        if all > 0.0 { busy / all } else { 0.0 }
    }
}

/// Usage of the whole system.
///
/// # Errors
/// An unreadable or unknown `/proc/stat`.
pub fn system() -> Result<System, MeterError> {
    system_in(Path::new("/proc/stat"), ticks_per_second())
}

fn system_in(path: &Path, ticks: f64) -> Result<System, MeterError> {
    let text = read(path)?;
    let line = text.lines().find_map(|l| l.strip_prefix("cpu ")).unwrap_or_default();
    let all: Option<Vec<f64>> =
        line.split_whitespace().map(|n| n.parse::<u64>().ok().map(|n| n as f64 / ticks)).collect();
    match all.as_deref() {
        Some([user, nice, system, idle, iowait, irq, soft, steal, ..]) => Ok(System {
            usr_s: user + nice,
            sys_s: *system,
            irq_s: irq + soft,
            idle_s: *idle,
            iowait_s: *iowait,
            steal_s: *steal,
        }),
        _ => Err(MeterError(format!("{}: expected 8 numbers after cpu, found \"{line}\"", path.display()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_and_blocking_count_for_the_thread_that_causes_them() {
        let before = (process(), thread());
        let (tid, own) = std::thread::spawn(|| {
            // SAFETY: no arguments, no memory.
            let tid = unsafe { libc::gettid() } as u32;
            for _ in 0..5 {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            (tid, (threads(&[tid]).unwrap(), thread()))
        })
        .join()
        .unwrap();
        assert!(own.0.voluntary >= 5 && own.1.voluntary >= own.0.voluntary, "{own:?}");
        assert!((process() - before.0).voluntary >= 5);
        // A thread that was joined is in /proc until the kernel has taken it apart.
        let look = |_| {
            std::thread::sleep(std::time::Duration::from_millis(1));
            threads(&[tid]).err()
        };
        let gone = (0..10_000).find_map(look).expect("it is there for ever");
        assert!(gone.to_string().contains(&tid.to_string()));
        let here = other_process(std::process::id()).unwrap();
        assert!(here.usr_s + here.sys_s >= 0.0 && here.voluntary > 0);
        let busy = system().unwrap();
        assert!(busy.usr_s > 0.0 && (0.0..=1.0).contains(&busy.busy()), "{busy:?}");
    }

    #[test]
    fn names_with_blanks_and_parentheses_do_not_shift_the_fields() {
        let dir = tempfile::tempdir().unwrap();
        let task = dir.path().join("7");
        std::fs::create_dir(&task).unwrap();
        std::fs::write(task.join("stat"), "7 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 250 125 0 0\n").unwrap();
        std::fs::write(task.join("status"), "Name:\ta\nvoluntary_ctxt_switches:\t3\nnonvoluntary_ctxt_switches:\t4\n")
            .unwrap();
        let got = threads_in(dir.path(), &[7], 100.0).unwrap();
        assert_eq!(got, Usage { usr_s: 2.5, sys_s: 1.25, voluntary: 3, involuntary: 4 });
        std::fs::write(task.join("stat"), "7 nonsense").unwrap();
        assert!(threads_in(dir.path(), &[7], 100.0).unwrap_err().to_string().contains("nonsense"));
        std::fs::write(dir.path().join("stat"), "cpu  100 50 30 500 20 5 5 10 0 0\ncpu0 1 2\n").unwrap();
        let all = system_in(&dir.path().join("stat"), 100.0).unwrap();
        assert_eq!((all.usr_s, all.irq_s, all.steal_s), (1.5, 0.1, 0.1));
        assert!((all.busy() - 190.0 / 720.0).abs() < 1e-12);
    }
}
