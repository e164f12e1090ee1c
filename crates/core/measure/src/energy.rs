//! Energy models: a computer at its power plug, and the device in it, from times and event counts.
//!
//! `E = (P_idle + P_dev)·T + P_package·T_awake + Σ P_core(state)·T(state) + Σ e·n`. The constants describe one
//! published machine: trust the order of methods, not the absolute joules.

/// Activity of a computer during a run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct HostTimes {
    /// Length of the run, s.
    pub span_s: f64,
    /// Time with the processor package awake, s.
    pub awake_s: f64,
    /// Time of all cores by the states of their two SMT siblings, s: idle and idle, idle and work, idle and poll, work
    /// and work, work and poll, poll and poll.
    pub pairs_s: [f64; 6],
    /// Context switches.
    pub switches: f64,
    /// Interrupts, timer interrupts included.
    pub interrupts: f64,
    /// Exits of logical CPUs from the idle state.
    pub wakes: f64,
}

/// Power model of a computer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HostPower {
    /// Name of the model.
    pub name: &'static str,
    /// Number of logical CPUs.
    pub cpus: usize,
    /// Power with everything in deep sleep, idle device included, W.
    pub idle_w: f64,
    /// Power of the package while awake, W.
    pub package_w: f64,
    /// Power of a core by the states of [`HostTimes::pairs_s`], W.
    pub pairs_w: [f64; 6],
    /// Energy of a context switch, J.
    pub switch_j: f64,
    /// Energy of an interrupt, J.
    pub interrupt_j: f64,
    /// Energy of an exit from the idle state, J.
    pub wake_j: f64,
}

/// A small server with a Xeon E3-1230 v5 (4 cores, 8 threads) and 64 GB. Core and event powers are fitted to the orderings
/// of the polling and energy paper (2022) and to the 52 W between full load and idle of the Optane schedulers paper
/// (2023); idle and package power are estimates, and the orderings hold for 25 to 60 W of idle power. Idle cores draw
/// C1 power: the simulator does not model the exit latency of deeper states, so it must not claim their savings.
pub const R230: HostPower = HostPower {
    name: "r230",
    cpus: 8,
    idle_w: 40.0,
    package_w: 7.5,
    pairs_w: [1.0, 9.2, 4.9, 11.8, 8.6, 6.0],
    switch_j: 3.5e-6,
    interrupt_j: 2.0e-6,
    wake_j: 8.5e-6,
};

impl HostPower {
    /// Energy of the computer, J, without the active energy of its device.
    pub fn joules(&self, t: &HostTimes) -> f64 {
        let cores: f64 = self.pairs_w.iter().zip(t.pairs_s).map(|(w, s)| w * s).sum();
        let events = t.switches * self.switch_j + t.interrupts * self.interrupt_j + t.wakes * self.wake_j;
        self.idle_w * t.span_s + self.package_w * t.awake_s + cores + events
    }
}

/// Activity of a device during a run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DeviceTimes {
    /// Busy time of the media or the link, whichever the model counts, s.
    pub busy_s: f64,
    /// Number of commands.
    pub commands: f64,
    /// Bytes read.
    pub read_bytes: f64,
    /// Bytes written.
    pub write_bytes: f64,
}

/// Active power of a device, above its idle power.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum DevicePower {
    /// Power while busy, weighted by the bytes read and written, W.
    Busy {
        /// Power while reading, W.
        read_w: f64,
        /// Power while writing, W.
        write_w: f64,
    },
    /// Energy by bytes and commands, J.
    Moved {
        /// Energy of a byte read, J.
        read_j: f64,
        /// Energy of a byte written, J.
        write_j: f64,
        /// Energy of a command, J.
        command_j: f64,
    },
}

impl DevicePower {
    /// Constants of a built-in device (`kind:name`, without overrides); `None` for unknown devices.
    ///
    /// Sources: data sheets and reviews give idle, read and write power of Optane, 850 Pro and hard disks. The writes
    /// of the Optane drives, the split of the SSDs and all of the Z-SSD are estimates. Seeks of hard disks count as
    /// transfers.
    pub fn of(device: &str) -> Option<DevicePower> {
        let moved = |read, write| DevicePower::Moved { read_j: read, write_j: write, command_j: 2e-6 };
        let busy = |idle: f64, read: f64, write: f64| DevicePower::Busy { read_w: read - idle, write_w: write - idle };
        Some(match device {
            // Writes: rated power without the commands' share, divided by the rate of the link.
            "ull:optane-900p" => moved(1.6e-9, 2.9e-9),
            "ull:optane-p4801x" => moved(1.6e-9, 4.3e-9),
            "ull:zssd-sz985" | "ull:zssd-sz985-steady" => busy(2.0, 8.0, 9.0),
            "ssd:850pro-256" => busy(0.28, 2.5, 2.8),
            "ssd:px256m5s" | "ssd:sata-mlc" => busy(0.35, 2.2, 3.0),
            "hdd:st1000dm003" | "hdd:st1000dm003-slow" => busy(3.4, 5.9, 5.9),
            "hdd:hts541010a9e662" => busy(0.7, 1.8, 1.8),
            _ => return None,
        })
    }

    /// Energy above idle, J.
    pub fn joules(&self, t: &DeviceTimes) -> f64 {
        match *self {
            DevicePower::Busy { read_w, write_w } => {
                let bytes = t.read_bytes + t.write_bytes;
                let reads = if bytes > 0.0 { t.read_bytes / bytes } else { 0.0 };
                t.busy_s * (read_w * reads + write_w * (1.0 - reads))
            }
            DevicePower::Moved { read_j, write_j, command_j } => {
                t.read_bytes * read_j + t.write_bytes * write_j + t.commands * command_j
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_energy_is_the_sum_of_its_terms() {
        let t = HostTimes {
            span_s: 10.0,
            awake_s: 8.0,
            pairs_s: [1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
            switches: 1e6,
            interrupts: 2e6,
            wakes: 3e5,
        };
        // 400 + 60 + (1 + 18.4 + 14.7 + 47.2 + 43 + 36) + (3.5 + 4 + 2.55)
        let expected = 400.0 + 60.0 + 160.3 + 10.05;
        assert!((R230.joules(&t) - expected).abs() < 1e-9 * expected);
    }

    #[test]
    fn a_saturated_optane_draws_five_watts_above_idle() {
        let t = DeviceTimes { busy_s: 1.0, commands: 590e3, read_bytes: 590e3 * 4096.0, write_bytes: 0.0 };
        let joules = DevicePower::of("ull:optane-900p").unwrap().joules(&t);
        assert!((joules - 5.0).abs() < 0.1, "{joules}");
        assert_eq!(DevicePower::of("null:0us"), None);
    }

    #[test]
    fn an_idle_disk_has_no_active_energy() {
        let disk = DevicePower::of("hdd:st1000dm003").unwrap();
        assert_eq!(disk.joules(&DeviceTimes::default()), 0.0);
        let t = DeviceTimes { busy_s: 2.0, commands: 10.0, read_bytes: 1e6, write_bytes: 1e6 };
        assert!((disk.joules(&t) - 5.0).abs() < 1e-9);
    }
}
