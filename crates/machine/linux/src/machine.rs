//! The machine: kernel, CPU, memory, load.

/// Facts about the machine. Texts are empty and numbers 0 where the kernel does not report them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Machine {
    /// Release of the kernel.
    pub kernel: String,
    /// Name of the CPU.
    pub cpu: String,
    /// Number of logical CPUs that this program may use.
    pub cpus: u32,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// Programs that wanted a CPU or a disk in the last minute, on average.
    pub load: f64,
}

impl Machine {
    /// This machine, now.
    pub fn now() -> Machine {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        Machine {
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            cpu: cpu_name(&read("/proc/cpuinfo")),
            cpus: std::thread::available_parallelism().map_or(1, |n| n.get() as u32),
            memory_bytes: memory_bytes(&read("/proc/meminfo")),
            load: load_average(&read("/proc/loadavg")),
        }
    }
}

/// The first `model name` of /proc/cpuinfo; ARM kernels report none.
fn cpu_name(cpuinfo: &str) -> String {
    let named = cpuinfo.lines().filter_map(|line| line.split_once(':')).find(|(key, _)| key.trim() == "model name");
    named.map_or(String::new(), |(_, name)| name.trim().to_owned())
}

fn memory_bytes(meminfo: &str) -> u64 {
    let total = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = total.and_then(|text| text.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
    kib.unwrap_or(0).saturating_mul(1024)
}

fn load_average(loadavg: &str) -> f64 {
    loadavg.split_whitespace().next().and_then(|n| n.parse().ok()).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_read_from_what_the_kernel_prints() {
        assert_eq!(cpu_name("processor\t: 0\nmodel name\t: A CPU @ 3 GHz\n"), "A CPU @ 3 GHz");
        assert_eq!(memory_bytes("MemTotal:       16393480 kB\nMemFree: 1 kB\n"), 16_393_480 * 1024);
        assert_eq!(load_average("0.52 0.58 0.59 1/467 12345\n"), 0.52);
        assert_eq!((cpu_name(""), memory_bytes("MemTotal: x"), load_average("")), (String::new(), 0, 0.0));
        assert!(!Machine::now().kernel.is_empty());
    }
}
