//! Half of the CPU time for servers, half for the client: two control groups of equal weight.

use std::path::{Path, PathBuf};

/// Two groups, removed when dropped.
pub(super) struct CpuGroups {
    root: PathBuf,
    server: PathBuf,
    client: PathBuf,
}

impl CpuGroups {
    /// Makes the groups and moves this process into the client's; `None` where that is not possible.
    pub(super) fn new() -> Option<CpuGroups> {
        let root = root()?;
        let name = |part: &str| root.join(format!("dumbwaiter-bench-{}-{part}", std::process::id()));
        let groups = CpuGroups { server: name("server"), client: name("client"), root };
        std::fs::create_dir(&groups.server).ok()?;
        std::fs::create_dir(&groups.client).ok()?;
        join(&groups.client, std::process::id()).then_some(groups)
    }

    /// Moves a server into its group, with the threads that it has.
    pub(super) fn add_server(&self, pid: u32) {
        join(&self.server, pid);
    }
}

impl Drop for CpuGroups {
    fn drop(&mut self) {
        join(&self.root, std::process::id());
        for group in [&self.server, &self.client] {
            // A server that has not quite ended keeps it; an empty group costs nothing.
            let _ = std::fs::remove_dir(group);
        }
    }
}

fn join(group: &Path, pid: u32) -> bool {
    std::fs::write(group.join("cgroup.procs"), pid.to_string()).is_ok()
}

/// Where the controller of CPU time is: version 2 with it enabled, or version 1.
fn root() -> Option<PathBuf> {
    let two = Path::new("/sys/fs/cgroup");
    let enabled = std::fs::read_to_string(two.join("cgroup.subtree_control")).unwrap_or_default();
    if enabled.split_whitespace().any(|controller| controller == "cpu") {
        return Some(two.to_owned());
    }
    ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"]
        .into_iter()
        .map(PathBuf::from)
        .find(|path| path.join("cpu.shares").exists() || path.join("tasks").exists())
}
