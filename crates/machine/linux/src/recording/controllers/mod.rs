//! What stands before the scheduler of the recorded disk: which controllers are in force, and what each sees and decides.

mod points;
mod rows;

pub(crate) use points::{Controller, Names, POINTS, Point, Source};
pub(crate) use rows::{Seen, name_charged, rows_of};

use serde_json::{Map, Value, json};

use crate::Roots;
use crate::io_cost::{is_enabled, settings_of};
use crate::recording::about::About;
use crate::recording::event::Kind;
use crate::recording::groups::Groups;

/// The controllers of a disk as they are when the recording begins.
#[derive(Default)]
pub(crate) struct Controllers {
    in_force: Vec<Controller>,
    number: String,
    disk: String,
    /// For events with the kernel's number of the disk or one of its partitions.
    of_dev: String,
    /// What the kernel's files say of this disk, io.cost's parameters where somebody set them.
    model: String,
    qos: String,
}

impl Controllers {
    /// Those in force on the disk; none for a partition, with a note, because controllers decide for the whole disk.
    pub(crate) fn of(about: &About, groups: Option<&Groups>, roots: &Roots, notes: &mut Vec<String>) -> Controllers {
        let number = format!("{}:{}", about.dev.0, about.dev.1);
        let [model, qos] = settings_of(&number, roots);
        let wbt = about.queue.get("wbt_lat_usec").is_some_and(|target| target.parse().is_ok_and(|us: u64| us > 0));
        let limited = groups.is_some_and(Groups::are_limited);
        let cost = is_enabled(&qos);
        let all = [(Controller::Wbt, wbt), (Controller::IoMax, limited), (Controller::IoCost, cost)];
        let mut in_force: Vec<Controller> = all.iter().filter(|(_, there)| *there).map(|(of, _)| *of).collect();
        if about.is_partition() && !in_force.is_empty() {
            let names: Vec<&str> = in_force.iter().map(|of| of.name()).collect();
            notes.push(format!(
                "not recorded: {}: controllers decide for the whole disk; record that",
                names.join(", ")
            ));
            in_force.clear();
        }
        Controllers { in_force, number, disk: about.name.clone(), of_dev: about.filter(), model, qos }
    }

    pub(crate) fn has(&self, of: Controller) -> bool {
        self.in_force.contains(&of)
    }

    /// The event is of a controller that is not recorded.
    pub(crate) fn is_left_out(&self, kind: Kind) -> bool {
        matches!(kind, Kind::Controller(place) if !self.has(POINTS[usize::from(place)].of))
    }

    /// Its events cannot be seen here.
    pub(crate) fn leave_out(&mut self, of: Controller) {
        self.in_force.retain(|own| *own != of);
    }

    /// Leaves out those of which probes alone tell what is needed, with a note.
    pub(crate) fn leave_out_without_probes(&mut self, notes: &mut Vec<String>) {
        for point in POINTS.iter().filter(|point| point.needed) {
            if self.has(point.of) {
                notes.push(format!("not recorded: {}: it needs kprobe events (CONFIG_KPROBE_EVENTS)", point.of.name()));
                self.leave_out(point.of);
            }
        }
    }

    /// The kinds of events to record, with their places in [`POINTS`].
    pub(crate) fn points(&self) -> impl Iterator<Item = (u8, &'static Point)> {
        POINTS.iter().enumerate().filter(|(_, point)| self.has(point.of)).map(|(place, point)| (place as u8, point))
    }

    /// The kernel's filter for an event of this disk; empty where it needs none.
    pub(crate) fn filter(&self, point: &Point) -> String {
        let disk = match point.names {
            Names::Number(field) => format!("{field} == \"{}\"", self.number),
            Names::Disk(field) => format!("{field} == \"{}\"", self.disk),
            Names::Dev => self.of_dev.clone(),
            Names::Nothing => String::new(),
        };
        match point.only {
            Some(only) => format!("({disk}) && {only}"),
            None => disk,
        }
    }

    /// The disk, as `8:0`.
    pub(crate) fn number(&self) -> &str {
        &self.number
    }

    pub(crate) fn names(&self) -> Vec<&'static str> {
        self.in_force.iter().map(|of| of.name()).collect()
    }

    /// For the JSON of the recording.
    pub(crate) fn describe(&self, value: &mut Value, mono0: u64) {
        if self.in_force.is_empty() {
            return;
        }
        value["controllers"] = self.names().into();
        if self.has(Controller::IoCost) {
            value["mono0_ns"] = mono0.into();
            value["model"] = pairs(&self.model);
            value["qos"] = pairs(&self.qos);
        }
    }
}

/// `rbps=1 wbps=2` as an object; `ctrl` is left out where the kernel chose.
fn pairs(text: &str) -> Value {
    let pairs = text.split(' ').filter_map(|word| word.split_once('=')).filter(|pair| *pair != ("ctrl", "auto"));
    Value::Object(pairs.map(|(key, value)| (key.to_owned(), json!(value))).collect::<Map<_, _>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_the_kernel_chose_are_not_told_as_ours() {
        assert_eq!(pairs("enable=1 ctrl=auto"), json!({ "enable": "1" }));
        assert_eq!(pairs("ctrl=user model=linear rbps=5"), json!({ "ctrl": "user", "model": "linear", "rbps": "5" }));
    }

    #[test]
    fn an_event_is_filtered_by_the_name_that_it_has_for_the_disk() {
        let controllers = Controllers {
            in_force: vec![Controller::IoCost],
            number: "8:16".into(),
            disk: "sdb".into(),
            of_dev: "dev == 8388624".into(),
            model: String::new(),
            qos: String::new(),
        };
        let of = |row: &str| controllers.filter(POINTS.iter().find(|point| point.row == row).unwrap());
        assert_eq!(of("wbt_timer"), "name == \"8:16\"");
        assert_eq!(of("bio_submit"), "dev == 8388624");
        assert_eq!(of("ioc_kick"), "(disk == \"sdb\") && debt > 0");
        assert_eq!(of("ioc_period"), "");
        assert!(controllers.points().all(|(_, point)| point.of == Controller::IoCost));
    }
}
