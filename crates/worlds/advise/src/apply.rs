//! The commands that set a scheduler now and at every boot, and those that take it back, for a user with sudo.

use dumbwaiter_scenario::{IoCostSettings as Settings, SchedulerSpec, WbtTarget};

use crate::provenance::{DriveKind, Provenance};

/// The drive to set it on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetDrive {
    /// Name of the disk in sysfs; of a simulated one a placeholder such as `sdX`.
    pub disk: String,
    /// How a udev rule matches it.
    pub udev_match: String,
    /// The scheduler to go back to: the one that is set, or the kernel's default.
    pub previous: String,
    /// The scheduler depth to go back to, where it is known.
    pub previous_nr_requests: Option<String>,
}

impl TargetDrive {
    /// The place of a device: that of the drive that was measured, or any drive of the simulated one's kind.
    pub fn of(provenance: &Provenance, device: &str) -> TargetDrive {
        match &provenance.drive {
            Some(drive) if !drive.disk.is_empty() => TargetDrive {
                disk: drive.disk.clone(),
                udev_match: drive.udev_match.clone(),
                previous: drive.scheduler.clone(),
                previous_nr_requests: drive.queue.get("nr_requests").cloned(),
            },
            _ => TargetDrive::simulated(provenance.models.get(device).copied().unwrap_or_else(|| kind_by_name(device))),
        }
    }

    /// Any drive of a kind.
    pub fn simulated(kind: DriveKind) -> TargetDrive {
        let (disk, matching, previous) = match kind {
            DriveKind::HardDisk => ("sdX", "KERNEL==\"sd*\", ATTR{queue/rotational}==\"1\"", "mq-deadline"),
            DriveKind::SataSsd => ("sdX", "KERNEL==\"sd*\", ATTR{queue/rotational}==\"0\"", "mq-deadline"),
            DriveKind::Nvme => ("nvme0n1", "KERNEL==\"nvme*\"", "none"),
            // Most sticks say that they rotate.
            DriveKind::UsbStick => ("sdX", "KERNEL==\"sd*\", SUBSYSTEMS==\"usb\"", "mq-deadline"),
            // Not the boot partitions of eMMC, which are disks too.
            DriveKind::MemoryCard => ("mmcblk0", "KERNEL==\"mmcblk[0-9]\"", "mq-deadline"),
        };
        TargetDrive {
            disk: disk.to_owned(),
            udev_match: format!("SUBSYSTEM==\"block\", ENV{{DEVTYPE}}==\"disk\", {matching}"),
            previous: previous.to_owned(),
            previous_nr_requests: None,
        }
    }
}

/// The kind of a built-in model in a result that does not say it.
fn kind_by_name(device: &str) -> DriveKind {
    match device.split(':').next() {
        Some("hdd") => DriveKind::HardDisk,
        Some("ull" | "volume" | "cloud" | "null") => DriveKind::Nvme,
        _ => DriveKind::SataSsd,
    }
}

/// The commands of a scheduler on a drive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commands {
    /// Set it now and at every boot.
    pub apply: Vec<String>,
    /// Take it back.
    pub undo: Vec<String>,
    /// The udev rule by itself.
    pub udev_rule: String,
}

/// An attribute of the drive in sysfs that is set beside the scheduler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attribute {
    /// Its path below the disk, such as `queue/nr_requests`.
    pub path: &'static str,
    /// The value to set.
    pub value: u32,
    /// The value to go back to, where it is known and setting the scheduler does not restore it.
    pub previous: Option<String>,
}

/// The commands that set `spec`, and a scheduler depth if one is given. Each disk has a udev file of its own: that of another
/// stays.
pub fn commands(place: &TargetDrive, spec: &SchedulerSpec, nr_requests: Option<u32>) -> Commands {
    let previous = place.previous_nr_requests.clone();
    let attribute = nr_requests.map(|value| Attribute { path: "queue/nr_requests", value, previous });
    commands_with(place, spec, attribute.as_slice())
}

/// The commands that set `spec` and some attributes of the drive. None where a name or value is not of the kind that Linux gives:
/// results are files, which anyone may have written, and the commands are typed by a user with sudo.
pub fn commands_with(place: &TargetDrive, spec: &SchedulerSpec, attributes: &[Attribute]) -> Commands {
    if !is_sound(place, spec, attributes) {
        return Commands { apply: Vec::new(), undo: Vec::new(), udev_rule: String::new() };
    }
    let disk = format!("/sys/block/{}", place.disk);
    let set = |value: &str, path: &str| format!("echo {value} | sudo tee {disk}/{path}");
    // The scheduler first: setting it resets the others.
    let mut settings = vec![("queue/scheduler".to_owned(), spec.name.clone())];
    // The release of a scheduler is chosen with the kernel.
    let tunables = spec.tunables.iter().filter(|(name, _)| *name != "kernel");
    settings.extend(tunables.map(|(name, value)| (format!("queue/iosched/{name}"), value.to_string())));
    settings.extend(attributes.iter().map(|a| (a.path.to_owned(), a.value.to_string())));
    // After the scheduler, which may switch it off: what is written by hand stays.
    let wbt = spec.controls.wbt.map(wbt_value);
    settings.extend(wbt.clone().map(|value| (WBT.to_owned(), value)));
    let io_cost: Vec<(&str, String)> = spec.controls.io_cost.iter().flat_map(io_cost_files).collect();
    let assigned: Vec<String> = settings.iter().map(|(path, value)| format!("ATTR{{{path}}}=\"{value}\"")).collect();
    let mut udev_rule = format!("ACTION==\"add|change\", {}, {}", place.udev_match, assigned.join(", "));
    for (file, text) in &io_cost {
        udev_rule += &format!(", RUN+=\"/bin/sh -c 'echo %M:%m {text} >{CGROUPS}/{file}'\"");
    }
    // udev reads the rules of all folders by name and the last assignment wins: behind what distributions and guides call
    // 60-ioschedulers.rules, 60-ssd-scheduler.rules, 64-btrfs-zoned.rules or 99-….
    let file = format!("/etc/udev/rules.d/99-zz-io-scheduler-{}.rules", place.disk);
    let reload = "sudo udevadm control --reload".to_owned();
    let mut apply: Vec<String> = settings.iter().map(|(path, value)| set(value, path)).collect();
    let of_disk = |text: &str, file: &str| format!("echo \"$(cat {disk}/dev) {text}\" | sudo tee {CGROUPS}/{file}");
    apply.extend(io_cost.iter().map(|(file, text)| of_disk(text, file)));
    apply.extend([format!("echo '{}' | sudo tee {file}", udev_rule.replace('\'', "'\\''")), reload.clone()]);
    let mut undo = vec![set(&place.previous, "queue/scheduler")];
    // What Linux would have set by itself.
    undo.extend(wbt.map(|_| set("-1", WBT)));
    undo.extend(spec.controls.io_cost.map(|_| of_disk("enable=0 ctrl=auto", "io.cost.qos")));
    undo.extend(attributes.iter().filter_map(|a| Some(set(a.previous.as_deref()?, a.path))));
    undo.extend([format!("sudo rm {file}"), reload]);
    Commands { apply, undo, udev_rule }
}

/// The target of write-back throttling in sysfs.
const WBT: &str = "queue/wbt_lat_usec";
/// Where systemd mounts the control groups.
const CGROUPS: &str = "/sys/fs/cgroup";

fn wbt_value(target: WbtTarget) -> String {
    match target {
        WbtTarget::Default => "-1".to_owned(),
        WbtTarget::Off => "0".to_owned(),
        WbtTarget::Us(us) => us.to_string(),
    }
}

/// The root group's files of io.cost and what is written to them after the number of the drive: the model first, as the other
/// enables it.
fn io_cost_files(settings: &Settings) -> Vec<(&'static str, String)> {
    let model = settings.user_model.then(|| ("io.cost.model", settings.model_text()));
    let qos = match settings.user_qos {
        true => settings.qos_text(),
        false => format!("enable={}", u8::from(settings.enabled)),
    };
    model.into_iter().chain([("io.cost.qos", qos)]).collect()
}

/// Whether a shell and udev read each part of the commands as the one word or match that it is meant to be.
fn is_sound(place: &TargetDrive, spec: &SchedulerSpec, attributes: &[Attribute]) -> bool {
    let is_word = |text: &str| {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-+:!".contains(c);
        !text.is_empty() && !text.starts_with('.') && text.chars().all(is_plain)
    };
    let is_key = |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || "_{}/".contains(c));
    let is_value = |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || " .:_-+/=*![]".contains(c));
    let is_match = |part: &str| {
        let parts = part.split_once("==\"").and_then(|(key, value)| Some((key, value.strip_suffix('"')?)));
        parts.is_some_and(|(key, value)| is_key(key) && is_value(value))
    };
    let tunables = spec.tunables.iter().flat_map(|(name, value)| [name.clone(), value.to_string()]);
    let previous = attributes.iter().filter_map(|attribute| attribute.previous.clone());
    is_word(&place.disk)
        && is_word(&place.previous)
        && is_word(&spec.name)
        && tunables.chain(previous).all(|text| is_word(&text))
        && place.udev_match.split(", ").all(is_match)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(disk: &str) -> TargetDrive {
        TargetDrive {
            disk: disk.to_owned(),
            udev_match: format!("KERNEL==\"{disk}\""),
            previous: "none".to_owned(),
            previous_nr_requests: Some("256".to_owned()),
        }
    }

    #[test]
    fn commands_and_rule_set_the_scheduler_and_its_settings_and_take_them_back() {
        let spec = SchedulerSpec::parse("mq-deadline:fifo_batch=1").unwrap();
        let found = commands(&place("sda"), &spec, Some(64));
        assert_eq!(found.apply[0], "echo mq-deadline | sudo tee /sys/block/sda/queue/scheduler");
        assert_eq!(found.apply[1], "echo 1 | sudo tee /sys/block/sda/queue/iosched/fifo_batch");
        assert_eq!(found.apply[2], "echo 64 | sudo tee /sys/block/sda/queue/nr_requests");
        let rule = "ACTION==\"add|change\", KERNEL==\"sda\", ATTR{queue/scheduler}=\"mq-deadline\", ATTR{queue/iosched/fifo_batch}=\"1\", ATTR{queue/nr_requests}=\"64\"";
        assert_eq!(found.udev_rule, rule);
        assert_eq!(found.apply[3], format!("echo '{rule}' | sudo tee /etc/udev/rules.d/99-zz-io-scheduler-sda.rules"));
        assert_eq!(found.undo[0], "echo none | sudo tee /sys/block/sda/queue/scheduler");
        assert_eq!(found.undo[1], "echo 256 | sudo tee /sys/block/sda/queue/nr_requests");
        assert_eq!(found.undo[2], "sudo rm /etc/udev/rules.d/99-zz-io-scheduler-sda.rules");
        assert_ne!(found.apply[3], commands(&place("sdb"), &spec, None).apply[2], "one disk's rule over another's");
    }

    #[test]
    fn what_stands_before_the_scheduler_is_set_with_it_and_taken_back() {
        let spec = SchedulerSpec::parse("mq-deadline+wbt=off").unwrap();
        let found = commands(&place("sda"), &spec, None);
        assert_eq!(found.apply[1], "echo 0 | sudo tee /sys/block/sda/queue/wbt_lat_usec");
        assert!(found.udev_rule.ends_with("ATTR{queue/scheduler}=\"mq-deadline\", ATTR{queue/wbt_lat_usec}=\"0\""));
        assert_eq!(found.undo[1], "echo -1 | sudo tee /sys/block/sda/queue/wbt_lat_usec");
        let spec = SchedulerSpec::parse("none+io.cost:qos=min=50 max=50").unwrap();
        let found = commands(&place("nvme0n1"), &spec, None);
        let qos = "enable=1 ctrl=user rpct=0.00 rlat=25000 wpct=0.00 wlat=25000 min=50.00 max=50.00";
        let set = format!("echo \"$(cat /sys/block/nvme0n1/dev) {qos}\" | sudo tee /sys/fs/cgroup/io.cost.qos");
        assert_eq!(found.apply[1], set);
        let runs = format!("RUN+=\"/bin/sh -c 'echo %M:%m {qos} >/sys/fs/cgroup/io.cost.qos'\"");
        assert!(found.udev_rule.ends_with(&runs), "{}", found.udev_rule);
        assert!(found.apply[2].contains("-c '\\''echo %M:%m enable=1"), "{}", found.apply[2]);
        assert!(found.undo[1].contains("enable=0 ctrl=auto\" | sudo tee /sys/fs/cgroup/io.cost.qos"));
    }

    #[test]
    fn a_result_that_anyone_may_have_written_puts_nothing_else_into_the_commands() {
        let spec = SchedulerSpec::parse("mq-deadline:fifo_batch=1").unwrap();
        assert!(!commands(&place("nvme0n1"), &spec, Some(64)).apply.is_empty());
        let identified = "SUBSYSTEM==\"block\", ATTRS{wwid}==\"t10.ATA     ST1000DM003-1CH162\"".to_owned();
        assert!(
            !commands(&TargetDrive { udev_match: identified, ..place("cciss!c0d0") }, &spec, None).apply.is_empty()
        );
        for bad in ["", "..", "../../etc", "sda; reboot", "$(reboot)", "`reboot`", "sda\nreboot", "a'b", "a b"] {
            assert!(commands(&place(bad), &spec, None).apply.is_empty(), "{bad:?}");
            assert!(
                commands(&TargetDrive { previous: bad.to_owned(), ..place("sda") }, &spec, None).apply.is_empty(),
                "{bad:?}"
            );
            let previous_nr_requests = Some(bad.to_owned());
            assert!(
                commands(&TargetDrive { previous_nr_requests, ..place("sda") }, &spec, Some(64)).undo.is_empty(),
                "{bad:?}"
            );
            let settings = [("fifo_batch".to_owned(), bad.to_owned())].into();
            let spec = SchedulerSpec { tunables: settings, ..spec.clone() };
            assert!(commands(&place("sda"), &spec, None).apply.is_empty(), "{bad:?}");
        }
        for bad in [
            "",
            "KERNEL==\"sda\", RUN+=\"/bin/sh\"",
            "KERNEL==\"sda\"' | sh #",
            "KERNEL==\"sda\"\nRUN==\"x\"",
            "ATTR{a}=\"b\"",
        ] {
            let place = TargetDrive { udev_match: bad.to_owned(), ..place("sda") };
            assert!(commands(&place, &spec, None).apply.is_empty(), "{bad:?}");
        }
    }

    #[test]
    fn a_simulated_drive_has_the_commands_of_its_kind() {
        let models = [
            ("ssd:d5-p5430", DriveKind::Nvme),
            ("./my-drive.toml", DriveKind::HardDisk),
            ("ssd:usb-stick", DriveKind::UsbStick),
            ("ssd:microsd-a1", DriveKind::MemoryCard),
        ];
        let models = models.map(|(name, kind)| (name.to_owned(), kind));
        let provenance = Provenance { models: models.into(), ..Provenance::default() };
        let of = |device: &str| commands(&TargetDrive::of(&provenance, device), &SchedulerSpec::named("kyber"), None);
        assert!(of("hdd:st1000dm003").udev_rule.contains("ATTR{queue/rotational}==\"1\""));
        assert!(of("ssd:850pro-256").apply[0].ends_with("/sys/block/sdX/queue/scheduler"));
        assert!(of("./my-drive.toml").udev_rule.contains("KERNEL==\"sd*\", ATTR{queue/rotational}==\"1\""));
        assert!(of("ssd:usb-stick").udev_rule.contains("KERNEL==\"sd*\", SUBSYSTEMS==\"usb\", ATTR"));
        let card = of("ssd:microsd-a1");
        assert!(card.udev_rule.contains("KERNEL==\"mmcblk[0-9]\", ATTR"));
        assert!(card.undo[0].starts_with("echo mq-deadline | sudo tee /sys/block/mmcblk0/"));
        for nvme in ["ull:optane-900p", "ssd:d5-p5430"] {
            assert!(of(nvme).undo[0].starts_with("echo none | sudo tee /sys/block/nvme0n1/"));
        }
    }

    #[test]
    fn the_rule_comes_after_those_of_distributions_and_guides() {
        let spec = SchedulerSpec::named("bfq");
        let found = commands_with(&place("sda"), &spec, &[]);
        let name = found.undo.iter().find_map(|line| line.strip_prefix("sudo rm /etc/udev/rules.d/")).unwrap();
        for other in ["60-ioschedulers.rules", "60-ssd-scheduler.rules", "64-btrfs-zoned.rules", "99-scheduler.rules"] {
            assert!(name > other, "{name} is undone by {other}");
        }
    }
}
