//! Shares of a disk by cgroup: groups with weights for tenants, in version 2 (`io`) or version 1 (`blkio`) of cgroups,
//! whichever has the controller.
//!
//! A weight acts only where something on the disk honours it: BFQ for the `bfq` files, iocost (`io.cost.qos` with
//! `enable=1`) for `io.weight`.

use std::path::{Path, PathBuf};

use crate::file::{read, read_some, write};
use crate::undo::{Action, Guard};
use crate::{Error, Roots};

/// Which cgroups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// `blkio`; threads can be moved one by one.
    V1,
    /// `io`; whole processes only, because the controller is not a threaded one.
    V2,
}

/// The hierarchy that has the I/O controller.
#[derive(Clone, Debug)]
pub struct Hierarchy {
    /// Its version.
    pub version: Version,
    /// Where it is mounted.
    pub mount: PathBuf,
    /// This process's group in it.
    home: PathBuf,
}

/// The file of a weight and its range.
struct Weight {
    version: Version,
    file: &'static str,
    most: u32,
}

const WEIGHTS: [Weight; 4] = [
    Weight { version: Version::V2, file: "io.bfq.weight", most: 1000 },
    Weight { version: Version::V2, file: "io.weight", most: 10_000 },
    Weight { version: Version::V1, file: "blkio.bfq.weight", most: 1000 },
    Weight { version: Version::V1, file: "blkio.weight", most: 1000 },
];

/// What is asked of a group beside its weight, by its file in version 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// `io.max`, such as `259:0 rbps=1000 wbps=max riops=max wiops=max`. Version 1 has a file for each limit.
    Max,
    /// `io.latency`, such as `259:0 target=5000` (µs).
    Latency,
    /// `io.prio.class`, such as `idle`.
    PrioClass,
    /// `io.weight`, which is io.cost's.
    Weight,
}

impl Rule {
    /// The file of version 2.
    pub fn name(self) -> &'static str {
        match self {
            Rule::Max => "io.max",
            Rule::Latency => "io.latency",
            Rule::PrioClass => "io.prio.class",
            Rule::Weight => "io.weight",
        }
    }
}

/// The files of limits in version 1, by the words of `io.max`.
const THROTTLE: [(&str, &str); 4] = [
    ("rbps", "blkio.throttle.read_bps_device"),
    ("wbps", "blkio.throttle.write_bps_device"),
    ("riops", "blkio.throttle.read_iops_device"),
    ("wiops", "blkio.throttle.write_iops_device"),
];

/// Finds the hierarchy with the I/O controller. The text says in one line which it is, or why there is none.
pub fn detect(roots: &Roots) -> (Option<Hierarchy>, String) {
    let mounts = read_some(&roots.proc.join("self/mounts")).unwrap_or_default();
    let groups = read_some(&roots.proc.join("self/cgroup")).unwrap_or_default();
    let mut seen = Vec::new();
    for line in mounts.lines() {
        let fields: Vec<&str> = line.split(' ').collect();
        let [_, mount, kind, options, ..] = fields[..] else { continue };
        let version = match kind {
            "cgroup" if options.split(',').any(|o| o == "blkio") => Version::V1,
            "cgroup2" => Version::V2,
            _ => continue,
        };
        let mount = PathBuf::from(mount);
        if version == Version::V2 {
            let controllers = read_some(&mount.join("cgroup.controllers")).unwrap_or_default();
            if !controllers.split_whitespace().any(|c| c == "io") {
                seen.push(format!("cgroup v2 at {} lacks the io controller", mount.display()));
                continue;
            }
        }
        // `number:controllers:path`; version 2 has an empty list.
        let own = groups.lines().filter_map(|l| l.split_once(':')?.1.split_once(':')).find(|(list, _)| match version {
            Version::V1 => list.split(',').any(|c| c == "blkio"),
            Version::V2 => list.is_empty(),
        });
        let home = mount.join(own.map_or("", |(_, path)| path.trim_start_matches('/')));
        let about = match version {
            Version::V1 => format!("cgroup v1 blkio at {}: weights for threads, honoured by bfq", mount.display()),
            Version::V2 => {
                let who = "honoured by bfq, and by iocost where io.cost.qos enables it";
                format!("cgroup v2 io at {}: weights for processes, {who}", mount.display())
            }
        };
        return (Some(Hierarchy { version, mount, home }), about);
    }
    let why = if seen.is_empty() { "no cgroups with an I/O controller are mounted".into() } else { seen.join("; ") };
    (None, format!("no weights: {why}"))
}

/// Groups made for this process's tenants; removed, and their members moved home, when dropped.
#[derive(Debug)]
pub struct Groups {
    version: Version,
    mount: PathBuf,
    top: PathBuf,
    home: PathBuf,
    /// Each after the group that it is in: removed in reverse order, before `top`.
    children: Vec<(PathBuf, Guard)>,
    _top: Guard,
    _controller: Option<Guard>,
}

impl Groups {
    /// Makes an empty group for this process's tenants.
    pub fn new(hierarchy: &Hierarchy) -> Result<Groups, Error> {
        let Hierarchy { version, mount, home } = hierarchy;
        let controller = match version {
            Version::V1 => None,
            Version::V2 => enable(mount)?,
        };
        let top = mount.join(format!("dumbwaiter-{}", std::process::id()));
        let guard = create(&top, home)?;
        if *version == Version::V2 {
            // Removed with the group.
            write(&top.join("cgroup.subtree_control"), "+io")?;
        }
        Ok(Groups {
            version: *version,
            mount: mount.clone(),
            top,
            home: home.clone(),
            children: Vec::new(),
            _top: guard,
            _controller: controller,
        })
    }

    /// Makes a group with a weight (1 to 10000, default 100; BFQ takes at most 1000), in another group if it is `within` one,
    /// and returns its number. In version 2 a group with others in it has no processes of its own.
    pub fn add(&mut self, name: &str, weight: u32, within: Option<usize>) -> Result<usize, Error> {
        let group = self.make(name, within)?;
        match self.weigh(group, weight) {
            Ok(()) => Ok(group),
            Err(e) => {
                self.children.pop();
                Err(e)
            }
        }
    }

    /// As [`Groups::add`], with the weight that the kernel gives it.
    pub fn make(&mut self, name: &str, within: Option<usize>) -> Result<usize, Error> {
        if name.is_empty() || name.starts_with('.') || name.contains(['/', '\n']) || name.contains("cgroup.") {
            return Err(Error::Refused(format!("\"{name}\" is not a valid cgroup name")));
        }
        let above = within.map_or(Ok(self.top.as_path()), |group| self.dir(group))?;
        let dir = above.join(name);
        if self.children.iter().any(|(other, _)| *other == dir) {
            return Err(Error::Refused(format!("two groups with the name \"{name}\"")));
        }
        if within.is_some() && self.version == Version::V2 {
            write(&above.join("cgroup.subtree_control"), "+io")?;
        }
        let guard = create(&dir, &self.home)?;
        self.children.push((dir, guard));
        Ok(self.children.len() - 1)
    }

    /// Which cgroups these are.
    pub fn version(&self) -> Version {
        self.version
    }

    /// Whether the kernel has this rule for groups; an error says what is missing.
    pub fn offers(&self, group: usize, rule: Rule) -> Result<(), Error> {
        let file = match (self.version, rule) {
            (Version::V2, _) => rule.name(),
            (Version::V1, Rule::PrioClass) => "blkio.prio.class",
            (Version::V1, Rule::Max) => THROTTLE[0].1,
            (Version::V1, Rule::Latency | Rule::Weight) => {
                let (name, mount) = (rule.name(), self.mount.display());
                let text = format!("{name} is of cgroup v2, and here v1 has the I/O controller ({mount})");
                return Err(Error::Refused(text));
            }
        };
        match self.dir(group)?.join(file).exists() {
            true => Ok(()),
            false => Err(Error::Refused(format!("this kernel has no {}: its groups have no file {file}", rule.name()))),
        }
    }

    /// Writes a rule of a group, which the kernel offers.
    pub fn set_rule(&self, group: usize, rule: Rule, text: &str) -> Result<(), Error> {
        self.offers(group, rule)?;
        let dir = self.dir(group)?;
        let put = |file: &str, text: &str| write(&dir.join(file), text);
        match (self.version, rule) {
            (Version::V1, Rule::PrioClass) => put("blkio.prio.class", text),
            (Version::V1, Rule::Max) => {
                let mut words = text.split(' ');
                let device = words.next().unwrap_or_default();
                for word in words {
                    let (key, value) = word.split_once('=').unwrap_or((word, ""));
                    let known = THROTTLE.iter().find(|(of_v2, _)| *of_v2 == key);
                    let (_, file) = known.ok_or_else(|| Error::Refused(format!("no limit \"{word}\"")))?;
                    // 0 is no limit.
                    put(file, &format!("{device} {}", if value == "max" { "0" } else { value }))?;
                }
                Ok(())
            }
            _ => put(rule.name(), text),
        }
    }

    /// Changes the weight of a group.
    pub fn weigh(&self, group: usize, weight: u32) -> Result<(), Error> {
        let dir = self.dir(group)?;
        let name = dir.file_name().unwrap_or_default().display();
        if !(1..=10_000).contains(&weight) {
            return Err(Error::Refused(format!("weight {weight} of \"{name}\": expected 1 to 10000")));
        }
        let mut honoured = false;
        for known in WEIGHTS.iter().filter(|w| w.version == self.version) {
            let file = dir.join(known.file);
            if !file.exists() {
                continue;
            }
            if weight > known.most {
                let range = format!("{} takes 1 to {}", known.file, known.most);
                return Err(Error::Refused(format!("weight {weight} of \"{name}\": {range}")));
            }
            write(&file, &weight.to_string())?;
            honoured = true;
        }
        if !honoured {
            let dir = dir.display();
            let text = format!("{dir} has no file for a weight: this kernel has neither BFQ's groups nor iocost");
            return Err(Error::Refused(text));
        }
        Ok(())
    }

    fn dir(&self, group: usize) -> Result<&Path, Error> {
        let found = self.children.get(group).map(|(dir, _)| dir.as_path());
        found.ok_or_else(|| Error::Refused(format!("no group {group}: there are {}", self.children.len())))
    }

    /// Moves a process with all its threads.
    pub fn move_process(&self, group: usize, pid: u32) -> Result<(), Error> {
        write(&self.dir(group)?.join("cgroup.procs"), &pid.to_string())
    }

    /// Moves a process with all its threads into the root group of the hierarchy.
    pub fn move_to_root(&self, pid: u32) -> Result<(), Error> {
        write(&self.mount.join("cgroup.procs"), &pid.to_string())
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        while self.children.pop().is_some() {}
    }
}

/// Lets the groups below the root have the controller; takes it back at the end if it was not there.
fn enable(mount: &Path) -> Result<Option<Guard>, Error> {
    let file = mount.join("cgroup.subtree_control");
    if read(&file)?.split_whitespace().any(|c| c == "io") {
        return Ok(None);
    }
    let back = Action::write_text(&file, "-io");
    Guard::new(back, || write(&file, "+io")).map(Some)
}

fn create(dir: &Path, home: &Path) -> Result<Guard, Error> {
    Guard::new(Action::remove_cgroup(dir, home), || match std::fs::create_dir(dir) {
        // Left by an earlier process with the same number.
        Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        done => done.map_err(|e| Error::file("make the cgroup", dir, e)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(mounts: &str, groups: &str) -> (tempfile::TempDir, Roots) {
        let dir = tempfile::tempdir().unwrap();
        let roots = Roots::under(dir.path());
        std::fs::create_dir_all(dir.path().join("proc/self")).unwrap();
        let mounts = mounts.replace("DIR", &dir.path().display().to_string());
        std::fs::write(dir.path().join("proc/self/mounts"), mounts).unwrap();
        std::fs::write(dir.path().join("proc/self/cgroup"), groups).unwrap();
        (dir, roots)
    }

    fn put(dir: &Path, path: &str, text: &str) {
        let path = dir.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    #[test]
    fn the_hierarchy_with_the_controller_is_found_whatever_its_version() {
        let hybrid = "cgroup DIR/blkio cgroup rw,blkio 0 0\ncgroup2 DIR/unified cgroup2 rw 0 0\n";
        let (dir, roots) = machine(hybrid, "5:cpu:/\n4:blkio:/user\n0::/elsewhere\n");
        put(dir.path(), "unified/cgroup.controllers", "\n");
        let (found, about) = detect(&roots);
        let found = found.unwrap();
        assert_eq!((found.version, found.home.as_path()), (Version::V1, dir.path().join("blkio/user").as_path()));
        assert!(about.contains("v1"), "{about}");

        let (dir, roots) = machine("cgroup2 DIR/cg cgroup2 rw 0 0\n", "0::/user.slice\n");
        put(dir.path(), "cg/cgroup.controllers", "cpu io memory\n");
        let (found, about) = detect(&roots);
        assert_eq!(found.unwrap().home, dir.path().join("cg/user.slice"));
        assert!(about.contains("v2"), "{about}");

        put(dir.path(), "cg/cgroup.controllers", "cpu\n");
        let (found, about) = detect(&roots);
        assert!(found.is_none() && about.contains("lacks the io controller"), "{about}");
        let (_dir, roots) = machine("", "");
        assert!(detect(&roots).1.contains("no cgroups"));
    }

    #[test]
    fn rules_are_written_to_the_files_of_each_version() {
        for (mounts, own) in
            [("cgroup DIR/cg cgroup rw,blkio 0 0\n", "4:blkio:/\n"), ("cgroup2 DIR/cg cgroup2 rw 0 0\n", "0::/\n")]
        {
            let (dir, roots) = machine(mounts, own);
            put(dir.path(), "cg/cgroup.controllers", "io\n");
            put(dir.path(), "cg/cgroup.subtree_control", "io\n");
            let group = format!("cg/dumbwaiter-{}/t0", std::process::id());
            let names = ["io.max", "io.latency", "io.prio.class", "blkio.prio.class"];
            let files: Vec<&str> = names.into_iter().chain(THROTTLE.map(|(_, file)| file)).collect();
            files.iter().for_each(|file| put(dir.path(), &format!("{group}/{file}"), ""));
            put(dir.path(), &format!("cg/dumbwaiter-{}/cgroup.subtree_control", std::process::id()), "");
            let mut groups = Groups::new(&detect(&roots).0.unwrap()).unwrap();
            let t0 = groups.make("t0", None).unwrap();
            groups.set_rule(t0, Rule::Max, "7:0 rbps=1000 wiops=max").unwrap();
            groups.set_rule(t0, Rule::PrioClass, "idle").unwrap();
            let read = |file: &str| std::fs::read_to_string(dir.path().join(&group).join(file)).unwrap();
            let latency = groups.set_rule(t0, Rule::Latency, "7:0 target=5000").map_err(|e| e.to_string());
            if groups.version() == Version::V1 {
                assert_eq!(
                    [read(THROTTLE[0].1), read(THROTTLE[3].1), read("blkio.prio.class")],
                    ["7:0 1000", "7:0 0", "idle"]
                );
                assert!(latency.unwrap_err().contains("io.latency is of cgroup v2"));
            } else {
                assert_eq!([read("io.max"), read("io.prio.class")], ["7:0 rbps=1000 wiops=max", "idle"]);
                assert_eq!((latency, read("io.latency").as_str()), (Ok(()), "7:0 target=5000"));
                assert!(groups.set_rule(t0, Rule::Weight, "50").unwrap_err().to_string().contains("no io.weight"));
            }
            files.iter().for_each(|file| std::fs::remove_file(dir.path().join(&group).join(file)).unwrap());
            let subtree = format!("cg/dumbwaiter-{}/cgroup.subtree_control", std::process::id());
            std::fs::remove_file(dir.path().join(subtree)).unwrap();
        }
    }

    #[test]
    fn version_2_gets_its_controller_and_refuses_single_threads() {
        let (dir, roots) = machine("cgroup2 DIR/cg cgroup2 rw 0 0\n", "0::/\n");
        put(dir.path(), "cg/cgroup.controllers", "io\n");
        put(dir.path(), "cg/cgroup.subtree_control", "io\n");
        let top = format!("cg/dumbwaiter-{}", std::process::id());
        put(dir.path(), &format!("{top}/cgroup.subtree_control"), "");
        put(dir.path(), &format!("{top}/web/io.weight"), "default 100");
        put(dir.path(), &format!("{top}/web/cgroup.procs"), "");
        let mut groups = Groups::new(&detect(&roots).0.unwrap()).unwrap();
        let web = groups.add("web", 300, None).unwrap();
        let weight = std::fs::read_to_string(dir.path().join(format!("{top}/web/io.weight"))).unwrap();
        assert!(weight.starts_with("300"), "{weight}");
        groups.move_process(web, 42).unwrap();
        assert_eq!(std::fs::read_to_string(dir.path().join(format!("{top}/web/cgroup.procs"))).unwrap(), "42");
        for weight in [0, 10_001] {
            let said = groups.add("db", weight, None).unwrap_err().to_string();
            assert!(said.contains("1 to 10000"), "{said}");
        }
        assert!(groups.add("web", 100, None).unwrap_err().to_string().contains("two groups"));
        assert!(groups.add("a/b", 100, None).unwrap_err().to_string().contains("name"));
        assert!(groups.add("db", 100, None).unwrap_err().to_string().contains("no file for a weight"));
        // A folder of plain files cannot be removed as a cgroup can: take them away first.
        for file in ["web/io.weight", "web/cgroup.procs", "cgroup.subtree_control"] {
            std::fs::remove_file(dir.path().join(&top).join(file)).unwrap();
        }
        drop(groups);
        assert!(!dir.path().join(&top).exists());
    }
}
