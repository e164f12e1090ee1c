//! What stands before a disk's scheduler now: write-back throttling, io.cost, and weights of control groups.

use std::path::Path;

use crate::Roots;
use crate::cgroup::{self, Hierarchy, Version};
use crate::file::read_some;
use crate::io_cost::line_of;
use crate::queue::Queue;

/// Groups that are named.
const SHOWN: usize = 3;
/// Levels of groups that are looked at.
const LEVELS: usize = 3;
/// The weight of a group that was given none.
const DEFAULT_WEIGHT: &str = "100";

/// Says for the disk of `queue` the target of write-back throttling in us, whether io.cost is on and with what, and which groups
/// have a weight other than 100: one line for people.
pub fn in_force(roots: &Roots, queue: &Queue) -> String {
    let wbt = match queue.get("wbt_lat_usec").as_deref() {
        Ok("0") => "write-back throttling is off".to_owned(),
        Ok(us) => format!("write-back throttling has a target of {us} us for reads"),
        Err(_) => "there is no write-back throttling".to_owned(),
    };
    let (hierarchy, _) = cgroup::detect(roots);
    let Some(hierarchy) = hierarchy else { return format!("set now: {wbt}; there are no control groups with I/O") };
    let io_cost = io_cost(&hierarchy, queue);
    let mut weights = Vec::new();
    collect(&hierarchy.mount, &hierarchy, LEVELS, &mut weights);
    weights.sort();
    let more = weights.len().saturating_sub(SHOWN);
    weights.truncate(SHOWN);
    let mut shown = weights.join(", ");
    if more > 0 {
        shown += &format!(" and {more} more");
    }
    let groups =
        if shown.is_empty() { "no group has a weight of its own".to_owned() } else { format!("weights: {shown}") };
    format!("set now: {wbt}; {io_cost}; {groups}")
}

/// Whether the kernel could share disks by io.cost.
pub fn offers_io_cost(roots: &Roots) -> bool {
    let hierarchy = cgroup::detect(roots).0.filter(|hierarchy| hierarchy.version == Version::V2);
    hierarchy.is_some_and(|hierarchy| hierarchy.mount.join("io.cost.model").exists())
}

fn io_cost(hierarchy: &Hierarchy, queue: &Queue) -> String {
    let file = hierarchy.mount.join("io.cost.qos");
    let there = hierarchy.version == Version::V2 && file.exists();
    let Some(number) = queue.number().ok().filter(|_| there) else { return "there is no io.cost".to_owned() };
    match line_of(&file, &number).as_deref().and_then(|line| line.strip_prefix("enable=1 ")) {
        Some(qos) => format!("io.cost is on ({qos})"),
        None => "io.cost is off".to_owned(),
    }
}

/// The groups in `dir` that have a weight, with it.
fn collect(dir: &Path, hierarchy: &Hierarchy, levels: usize, found: &mut Vec<String>) {
    let files: &[&str] = match hierarchy.version {
        Version::V1 => &["blkio.bfq.weight", "blkio.weight"],
        Version::V2 => &["io.weight", "io.bfq.weight"],
    };
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        let weight = files.iter().find_map(|file| {
            let text = read_some(&path.join(file))?;
            let first = text.lines().next()?.trim_start_matches("default ").trim().to_owned();
            (first != DEFAULT_WEIGHT && !first.is_empty()).then_some(first)
        });
        if let Some(weight) = weight {
            let name = path.strip_prefix(&hierarchy.mount).unwrap_or(&path).display();
            found.push(format!("{name} {weight}"));
        }
        if levels > 1 {
            collect(&path, hierarchy, levels - 1, found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn throttling_io_cost_and_weights_are_told() {
        let dir = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        put("sys/block/fake/dev", "259:0\n");
        put("sys/block/fake/queue/scheduler", "[none]\n");
        put("sys/block/fake/queue/wbt_lat_usec", "2000\n");
        put("proc/self/mounts", &format!("cgroup2 {}/cg cgroup2 rw 0 0\n", dir.path().display()));
        put("proc/self/cgroup", "0::/\n");
        put("cg/cgroup.controllers", "io\n");
        let roots = Roots::under(dir.path());
        let queue = Queue::at(&dir.path().join("sys/block/fake"));
        let said = in_force(&roots, &queue);
        assert_eq!(
            said,
            "set now: write-back throttling has a target of 2000 us for reads; there is no io.cost; no group has a weight of its own"
        );
        put("sys/block/fake/queue/wbt_lat_usec", "0\n");
        put("cg/io.cost.qos", "8:0 enable=1 ctrl=auto\n259:0 enable=1 ctrl=user min=50.00\n");
        put("cg/db.slice/io.weight", "default 800\n");
        put("cg/web.slice/io.weight", "default 100\n");
        put("cg/web.slice/a.service/io.bfq.weight", "50\n");
        assert_eq!(
            in_force(&roots, &queue),
            "set now: write-back throttling is off; io.cost is on (ctrl=user min=50.00); weights: db.slice 800, web.slice/a.service 50"
        );
    }
}
