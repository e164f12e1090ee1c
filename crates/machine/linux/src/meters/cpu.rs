//! CPU time and context switches of another process.
#![allow(unsafe_code)]

use std::path::Path;

use crate::meters::files::{MeterError, folders, read};

/// Total CPU time and context switches.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_blanks_and_parentheses_do_not_shift_the_fields() {
        let dir = tempfile::tempdir().unwrap();
        let task = dir.path().join("7");
        std::fs::create_dir(&task).unwrap();
        std::fs::write(task.join("stat"), "7 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 250 125 0 0\n").unwrap();
        std::fs::write(task.join("status"), "Name:\ta\nvoluntary_ctxt_switches:\t3\nnonvoluntary_ctxt_switches:\t4\n")
            .unwrap();
        let got = super::task(&task, 100.0).unwrap();
        assert_eq!(got, Usage { usr_s: 2.5, sys_s: 1.25, voluntary: 3, involuntary: 4 });
        std::fs::write(task.join("stat"), "7 nonsense").unwrap();
        assert!(super::task(&task, 100.0).unwrap_err().to_string().contains("nonsense"));
    }
}
