use std::os::unix::fs::symlink;

use super::*;

/// A machine with the disk sda (partitions sda1, sda2), nvme0n1, and loop0 on /data/image.
struct Machine {
    dir: tempfile::TempDir,
    roots: Roots,
}

impl Machine {
    fn new() -> Machine {
        let dir = tempfile::tempdir().unwrap();
        let roots = Roots::under(dir.path());
        let machine = Machine { dir, roots };
        machine.put("proc/self/mountinfo", "22 1 0:20 / /proc rw - proc proc rw\n");
        machine.put("proc/swaps", "Filename Type Size Used Priority\n");
        for (path, dev) in
            [("sda", "8:0"), ("sda/sda1", "8:1"), ("sda/sda2", "8:2"), ("nvme0n1", "259:0"), ("loop0", "7:0")]
        {
            machine.put(&format!("sys/devices/{path}/dev"), dev);
            machine.put(&format!("sys/devices/{path}/size"), "2048");
            machine.put(&format!("sys/devices/{path}/ro"), "0");
            std::fs::create_dir_all(machine.dir.path().join(format!("sys/devices/{path}/holders"))).unwrap();
            std::fs::create_dir_all(machine.dir.path().join("sys/dev/block")).unwrap();
            symlink(format!("../../devices/{path}"), machine.dir.path().join(format!("sys/dev/block/{dev}"))).unwrap();
        }
        machine.put("sys/devices/sda/sda1/partition", "1");
        machine.put("sys/devices/sda/sda2/partition", "2");
        machine.put("sys/devices/sda/sda2/start", "4096");
        for disk in ["sda", "nvme0n1", "loop0"] {
            machine.put(&format!("sys/devices/{disk}/queue/scheduler"), "[none] mq-deadline");
            machine.put(&format!("sys/devices/{disk}/queue/io_poll"), "0");
            std::fs::create_dir_all(machine.dir.path().join("sys/block")).unwrap();
            symlink(format!("../devices/{disk}"), machine.dir.path().join(format!("sys/block/{disk}"))).unwrap();
        }
        machine.put("sys/devices/sda/queue/logical_block_size", "4096");
        machine.put("sys/devices/sda/queue/max_sectors_kb", "1280");
        machine.put("sys/devices/sda/queue/rotational", "1");
        machine.put("sys/devices/sda/device/model", "WOBBLE 3000   ");
        machine.put("sys/devices/loop0/loop/backing_file", "/data/image");
        machine.put("sys/module/nvme/parameters/poll_queues", "0");
        machine
    }

    fn path(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    fn put(&self, path: &str, text: &str) {
        let path = self.path(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, format!("{text}\n")).unwrap();
    }

    /// The path is none that exists, so that the machine's own devices do not matter.
    fn look(&self, dev: (u32, u32)) -> PathFacts {
        PathFacts::device(Path::new("/nowhere/dev"), dev, &self.roots).unwrap()
    }
}

#[test]
fn a_disk_and_a_partition_are_told_apart() {
    let machine = Machine::new();
    let disk = machine.look((8, 0));
    assert_eq!((disk.kind, disk.start, disk.bytes), (Kind::Disk, 0, 1 << 20));
    assert_eq!((disk.rotational, disk.model.as_deref()), (Some(true), Some("WOBBLE 3000")));
    assert!(disk.uses.is_empty(), "{:?}", disk.uses);
    let partition = machine.look((8, 2));
    assert_eq!((partition.kind, partition.start), (Kind::Partition, 4096));
    assert_eq!(partition.disk, disk.disk);
    assert_eq!(partition.queue().unwrap().name(), "sda");
}

#[test]
fn a_mounted_partition_counts_for_its_disk_and_not_for_its_neighbour() {
    let machine = Machine::new();
    machine.put("proc/self/mountinfo", "30 1 8:1 / /mnt/my\\040data rw - ext4 /dev/sda1 rw");
    assert_eq!(machine.look((8, 0)).uses, ["mounted at /mnt/my data"]);
    assert_eq!(machine.look((8, 1)).uses, ["mounted at /mnt/my data"]);
    assert!(machine.look((8, 2)).uses.is_empty());
    assert!(machine.look((259, 0)).uses.is_empty());
}

#[test]
fn holders_and_a_loop_device_on_top_are_uses() {
    let machine = Machine::new();
    machine.put("sys/devices/sda/sda2/holders/md0", "");
    assert_eq!(machine.look((8, 0)).uses, ["sda2 is part of md0"]);
    machine.put("sys/devices/loop0/loop/backing_file", "/dev/nvme0n1");
    assert_eq!(machine.look((259, 0)).uses, ["backs loop0"]);
    assert_eq!(backing::over(&machine.roots, Path::new("/dev/nvme0n1")), ["loop0"]);
}

#[test]
fn a_file_is_in_use_under_each_of_its_names() {
    let machine = Machine::new();
    let (one, other, third) = (machine.path("one"), machine.path("other"), machine.path("third"));
    std::fs::write(&one, "x").unwrap();
    std::fs::hard_link(&one, &other).unwrap();
    std::fs::write(&third, "x").unwrap();
    machine.put("sys/devices/loop0/loop/backing_file", one.to_str().unwrap());
    machine.put("proc/swaps", &format!("Filename Type Size Used Priority\n{} file 4 0 -2", one.display()));
    let uses = |path: &Path| PathFacts::file(path, &std::fs::metadata(path).unwrap(), &machine.roots).uses;
    let expected = [format!("swap space {}", one.display()), "backs loop0".into()];
    assert_eq!(uses(&one), expected);
    assert_eq!(uses(&other), expected);
    assert_eq!(uses(&third), Vec::<String>::new());
}

#[test]
fn polling_says_what_is_missing() {
    let machine = Machine::new();
    let none = machine.look((259, 0)).polling;
    assert!(!none.available && none.about.contains("nvme.poll_queues=N") && none.about.contains("now 0"), "{none:?}");
    machine.put("sys/module/nvme/parameters/poll_queues", "2");
    machine.put("sys/devices/nvme0n1/queue/io_poll", "1");
    assert!(machine.look((259, 0)).polling.available);
}

#[test]
fn writes_need_permission_and_a_used_device_its_name() {
    let machine = Machine::new();
    let free = machine.look((8, 2));
    assert!(free.check_writes(false, None).unwrap_err().to_string().contains("--destroy"));
    free.check_writes(true, None).unwrap();
    machine.put("proc/self/mountinfo", "30 1 8:2 / /mnt rw - ext4 /dev/sda2 rw");
    let used = machine.look((8, 2));
    let refused = used.check_writes(true, None).unwrap_err().to_string();
    assert!(refused.contains("mounted at /mnt") && refused.contains("--destroy"), "{refused}");
    let other = used.check_writes(true, Some(Path::new("/nowhere/dev2"))).unwrap_err().to_string();
    assert!(other.contains("/nowhere/dev2"), "{other}");
    // The same place spelled otherwise is not the name.
    used.check_writes(true, Some(Path::new("/nowhere/./dev"))).unwrap_err();
    used.check_writes(false, Some(Path::new("/nowhere/dev"))).unwrap_err();
    used.check_writes(true, Some(Path::new("/nowhere/dev"))).unwrap();
    machine.put("sys/devices/sda/ro", "1");
    let locked = machine.look((8, 2)).check_writes(true, Some(Path::new("/nowhere/dev"))).unwrap_err().to_string();
    assert!(locked.contains("read-only"), "{locked}");
}

#[test]
fn what_is_neither_file_nor_device_is_refused() {
    for path in ["/dev/null", "/tmp"] {
        let said = PathFacts::of(Path::new(path)).unwrap_err().to_string();
        assert!(said.contains(path) && said.contains("block device"), "{said}");
    }
    let said = PathFacts::of(Path::new("/nowhere/at all")).unwrap_err().to_string();
    assert!(said.contains("/nowhere/at all") && said.contains("No such file"), "{said}");
}

#[test]
fn escapes_of_the_kernels_tables_are_undone() {
    assert_eq!(unescaped("/a\\040b\\134c"), Path::new("/a b\\c"));
    assert_eq!(unescaped("/a\\04"), Path::new("/a\\04"));
    assert_eq!(unescaped("\\777"), Path::new("\\777"));
}
