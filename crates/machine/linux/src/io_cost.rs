//! io.cost of a disk, set through the files of the root of cgroup v2, with guards that put back what was there.

use std::path::{Path, PathBuf};

use crate::cgroup::{Hierarchy, Version};
use crate::file::{read_some, write};
use crate::undo::{Action, Guard};
use crate::{Error, Roots};

/// Sets io.cost of one disk; what was set before is back when this is dropped, on a signal, or by the next process after a crash.
#[derive(Debug)]
pub struct IoCost {
    model: PathBuf,
    qos: PathBuf,
    /// The disk, such as `259:0`.
    number: String,
    guards: Vec<Guard>,
}

impl IoCost {
    /// Whether this system has io.cost; an error says why not.
    pub fn offered(roots: &Roots) -> Result<(), Error> {
        IoCost::files(roots).map(|_| ())
    }

    fn files(roots: &Roots) -> Result<[PathBuf; 2], Error> {
        let (found, about) = crate::cgroup::detect(roots);
        let Some(Hierarchy { version: Version::V2, mount, .. }) = found else {
            return Err(Error::Refused(format!("io.cost is of cgroup v2: {about}")));
        };
        let files = ["io.cost.model", "io.cost.qos"].map(|name| mount.join(name));
        match files.iter().find(|file| !file.exists()) {
            Some(file) => Err(Error::Refused(format!("this kernel has no io.cost: there is no {}", file.display()))),
            None => Ok(files),
        }
    }

    /// Nothing is changed yet.
    pub fn new(roots: &Roots, number: &str) -> Result<IoCost, Error> {
        let [model, qos] = IoCost::files(roots)?;
        Ok(IoCost { model, qos, number: number.to_owned(), guards: Vec::new() })
    }

    /// Writes a model, if one is given, and then the quality of service, which may switch io.cost on: texts as the kernel's files
    /// take them behind the number of the disk.
    pub fn set(&mut self, model: Option<&str>, qos: &str) -> Result<(), Error> {
        if self.guards.is_empty() {
            for (file, off) in [(&self.model, "ctrl=auto"), (&self.qos, "enable=0 ctrl=auto")] {
                let of_disk = format!("{} ", self.number);
                let lines = read_some(file).unwrap_or_default();
                let before = lines.lines().find(|line| line.starts_with(&of_disk)).map(put_back);
                let back = before.unwrap_or_else(|| format!("{of_disk}{off}"));
                self.guards.push(Guard::new(Action::write_text(file, &back), || Ok(()))?);
            }
        }
        // One that another stack gave does not stay.
        let model = model.unwrap_or("ctrl=auto");
        let [of_model, of_qos] = [(&self.model, model), (&self.qos, qos)];
        for (guard, (file, text)) in self.guards.iter().zip([of_model, of_qos]) {
            guard.change(|| write(file, &format!("{} {text}", self.number)))?;
        }
        Ok(())
    }

    /// Puts back what was set before; what could not be, one line each.
    pub fn restore(&mut self) -> Vec<String> {
        self.guards.iter().rev().flat_map(Guard::restore).collect()
    }
}

/// What `io.cost.model` and `io.cost.qos` say of a disk, without its number; empty where they say nothing.
pub(crate) fn settings_of(number: &str, roots: &Roots) -> [String; 2] {
    let mount = crate::cgroup::detect(roots).0.filter(|found| found.version == Version::V2).map(|found| found.mount);
    ["io.cost.model", "io.cost.qos"].map(|file| {
        let line = mount.as_ref().and_then(|mount| line_of(&mount.join(file), number));
        line.map(|line| put_back(&line)).unwrap_or_default()
    })
}

/// What a file of the root group says of a disk, without its number.
pub(crate) fn line_of(file: &Path, number: &str) -> Option<String> {
    let text = read_some(file)?;
    text.lines().find_map(|line| line.strip_prefix(number)?.strip_prefix(' ')).map(str::to_owned)
}

/// Whether the text of `io.cost.qos` enables it.
pub(crate) fn is_enabled(qos: &str) -> bool {
    qos.split(' ').any(|word| word == "enable=1")
}

/// What restores a line of the kernel's files: the parameters of one that the kernel chose itself would become the user's.
fn put_back(line: &str) -> String {
    let is_auto = line.split(' ').any(|word| word == "ctrl=auto");
    let chosen =
        |word: &&str| !is_auto || !word.contains('=') || word.starts_with("enable=") || word.starts_with("ctrl=");
    line.split(' ').filter(chosen).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn roots(mounts: &str) -> (tempfile::TempDir, Roots) {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("proc/self")).unwrap();
        std::fs::create_dir(dir.path().join("cg")).unwrap();
        std::fs::write(dir.path().join("cg/cgroup.controllers"), "io\n").unwrap();
        let mounts = mounts.replace("DIR", &dir.path().display().to_string());
        std::fs::write(dir.path().join("proc/self/mounts"), mounts).unwrap();
        std::fs::write(dir.path().join("proc/self/cgroup"), "4:blkio:/\n0::/\n").unwrap();
        let roots = Roots::under(dir.path());
        (dir, roots)
    }

    #[test]
    fn what_was_set_before_comes_back() {
        let (dir, roots) = roots("cgroup2 DIR/cg cgroup2 rw 0 0\n");
        let [model, qos] = ["io.cost.model", "io.cost.qos"].map(|name| dir.path().join("cg").join(name));
        std::fs::write(&model, "").unwrap();
        let before = "8:0 enable=0 ctrl=auto\n259:0 enable=1 ctrl=user rpct=95.00";
        std::fs::write(&qos, before).unwrap();
        let mut io_cost = IoCost::new(&roots, "259:0").unwrap();
        io_cost.set(Some("ctrl=user model=linear rbps=1"), "enable=1 ctrl=user min=50.00").unwrap();
        // Files of the kernel forget what was there; these keep what is longer.
        let begins = |file: &PathBuf, text: &str| std::fs::read_to_string(file).unwrap().starts_with(text);
        assert!(
            begins(&model, "259:0 ctrl=user model=linear rbps=1") && begins(&qos, "259:0 enable=1 ctrl=user min=50.00")
        );
        drop(io_cost);
        assert!(begins(&model, "259:0 ctrl=auto") && begins(&qos, "259:0 enable=1 ctrl=user rpct=95.00"));
    }

    #[test]
    fn what_the_kernel_chose_stays_its_choice() {
        assert_eq!(put_back("8:0 enable=1 ctrl=auto rpct=0.00 max=100.00"), "8:0 enable=1 ctrl=auto");
        assert_eq!(put_back("8:0 ctrl=auto model=linear rbps=1"), "8:0 ctrl=auto");
        assert_eq!(put_back("8:0 enable=1 ctrl=user rpct=95.00"), "8:0 enable=1 ctrl=user rpct=95.00");
    }

    #[test]
    fn systems_without_it_say_why() {
        let (_dir, without) = roots("cgroup2 DIR/cg cgroup2 rw 0 0\n");
        assert!(IoCost::offered(&without).unwrap_err().to_string().contains("this kernel has no io.cost"));
        let (_dir, first) = roots("cgroup DIR/cg cgroup rw,blkio 0 0\n");
        assert!(IoCost::offered(&first).unwrap_err().to_string().contains("io.cost is of cgroup v2: cgroup v1 blkio"));
    }
}
