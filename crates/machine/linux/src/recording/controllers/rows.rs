//! Rows of what controllers saw and decided.

use std::collections::BTreeMap;

use crate::recording::controllers::{Controller, POINTS, Point, Source};
use crate::recording::event::Format;
use crate::recording::rows::{Row, operation_of};

/// Synchronous; more of this task follows; metadata; read-ahead; background write-back. In the flags of an I/O, and as letters.
const FLAGS: [(u32, char); 5] = [(11, 'S'), (12, 'M'), (15, 'I'), (19, 'A'), (20, 'B')];

/// An event of a controller.
pub(crate) struct Seen {
    pub(crate) at: u64,
    pub(crate) cpu: u16,
    pid: i32,
    point: &'static Point,
    values: String,
    /// The group as a path, or by its number.
    group: Result<String, u64>,
    sector: u64,
    bytes: u64,
    opf: u64,
    pub(crate) jiffies: u64,
}

impl Seen {
    /// Takes an event of the kind at this place of [`POINTS`] from the bytes of its record.
    pub(crate) fn of(place: u8, format: &Format, at: u64, cpu: u16, data: &[u8]) -> Option<Seen> {
        let point = POINTS.get(usize::from(place))?;
        let number = |name: &str| format.number(name, data).unwrap_or(0);
        let value = |name: &&str| match *name {
            "budget" => Some(number("vnow").wrapping_sub(number("vtime"))),
            name => format.number(name, data),
        };
        let values = point.values.iter().filter_map(|name| Some(format!("{name}={}", value(name)?)));
        Some(Seen {
            at,
            cpu,
            pid: number("common_pid") as i32,
            point,
            values: match point.source {
                Source::Write(..) => one_line(format.text("text", data)),
                _ => values.collect::<Vec<_>>().join(" "),
            },
            group: match point.source {
                Source::Tracepoint(_) => Ok(format.text("cgroup", data).trim_start_matches('/').to_owned()),
                Source::Probe(..) | Source::Write(..) => Err(number("group") as u64),
            },
            sector: number("sector") as u64,
            bytes: number("bytes") as u64,
            opf: number("opf") as u64,
            jiffies: number("jiffies") as u64,
        })
    }

    /// `None` for a setting of another disk.
    fn row(&self, first: u64, disk: &str, paths: &BTreeMap<u64, String>) -> Option<Row> {
        let written = matches!(self.point.source, Source::Write(..));
        let of_bio = self.point.values.is_empty() && !written;
        let letters = FLAGS.iter().filter(|(bit, _)| self.opf >> bit & 1 == 1).map(|(_, letter)| letter);
        let group = self.group.clone().unwrap_or_else(|number| paths.get(&number).cloned().unwrap_or_default());
        let values = if written { setting(self.point.row, &self.values, disk, &group)? } else { self.values.clone() };
        Some(Row {
            at: self.at - first,
            event: self.point.row,
            req: 0,
            sector: of_bio.then_some(self.sector),
            bytes: of_bio.then_some(self.bytes as i64),
            op: if of_bio { operation_of(self.opf).to_owned() } else { String::new() },
            flags: if of_bio { letters.collect() } else { values },
            pid: self.point.of_process.then_some(self.pid),
            ioprio: None,
            cpu: self.cpu,
            group,
        })
    }
}

/// A text that was written to a file of settings; what a row cannot hold is left out.
fn one_line(text: &str) -> String {
    let text: String = text.chars().filter(|letter| *letter != ',' && !letter.is_control()).collect();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// What a row says of a text written to a file of settings; `None` where it is for another disk than the one of this number.
fn setting(row: &str, text: &str, disk: &str, group: &str) -> Option<String> {
    let of_disk = |text: &str| text.strip_prefix(disk)?.strip_prefix(' ').map(str::to_owned);
    Some(match row {
        "mark" => format!("io.max group={group} {}", of_disk(text)?),
        "group_weight" => {
            let (last, before) =
                text.split(' ').collect::<Vec<_>>().split_last().map(|(l, b)| (l.to_string(), b.join(" ")))?;
            let weight: u32 = last.parse().ok().filter(|_| ["", "default", disk].contains(&before.as_str()))?;
            format!("group={group} weight={weight}")
        }
        row => format!("{row} {}", of_disk(text)?),
    })
}

/// The rows of events, in their order, none of before `first`. `disk` is its number, `paths` are the groups by theirs.
pub(crate) fn rows_of(mut seen: Vec<Seen>, first: u64, disk: &str, paths: &BTreeMap<u64, String>) -> Vec<Row> {
    seen.retain(|event| event.at >= first);
    seen.sort_by_key(|event| event.at);
    drop_periods_of_others(&mut seen);
    seen.iter().filter_map(|event| event.row(first, disk, paths)).collect()
}

/// The end of a period names no disk. It is of ours where the next event of io.cost of this CPU is: those of other disks were left
/// out.
fn drop_periods_of_others(seen: &mut Vec<Seen>) {
    let is_period = |event: &Seen| event.point.row == "ioc_period";
    let tells =
        |event: &&Seen| event.point.of == Controller::IoCost && !matches!(event.point.source, Source::Write(..));
    let mut followed: BTreeMap<u16, bool> = BTreeMap::new();
    let mut keep = vec![true; seen.len()];
    for (place, event) in seen.iter().enumerate().rev().filter(|(_, event)| tells(event)) {
        if is_period(event) {
            keep[place] = followed.insert(event.cpu, false).unwrap_or(true);
        } else {
            followed.insert(event.cpu, true);
        }
    }
    let mut keep = keep.into_iter();
    seen.retain(|_| keep.next().unwrap_or(true));
}

/// Which I/O a row is about.
#[derive(Clone)]
struct Io {
    sector: Option<u64>,
    bytes: Option<i64>,
    op: String,
}

impl Io {
    fn of(row: &Row) -> Io {
        Io { sector: row.sector, bytes: row.bytes, op: row.op.clone() }
    }

    fn name(self, row: &mut Row) {
        (row.sector, row.bytes, row.op) = (self.sector, self.bytes, self.op);
    }
}

/// Says which I/O each charge of io.cost is for: the one that its process queued or merged last; but a queued one may have been
/// split, and each piece is charged, so it is the request that the process gets next.
pub(crate) fn name_charged(rows: &mut [Row]) {
    let mut last: BTreeMap<Option<i32>, (Io, bool)> = BTreeMap::new();
    let mut merged = vec![false; rows.len()];
    for (row, merged) in rows.iter_mut().zip(&mut merged) {
        match row.event {
            "bio_queue" => _ = last.insert(row.pid, (Io::of(row), false)),
            "bio_backmerge" | "bio_frontmerge" => _ = last.insert(row.pid, (Io::of(row), true)),
            "split" | "getrq" => {
                last.entry(row.pid).and_modify(|(_, merging)| *merging = false);
            }
            "ioc_cost" => {
                if let Some((io, merging)) = last.get(&row.pid).cloned() {
                    *merged = merging;
                    io.name(row);
                }
            }
            _ => {}
        }
    }
    let mut next: BTreeMap<Option<i32>, Io> = BTreeMap::new();
    for (row, merged) in rows.iter_mut().zip(merged).rev() {
        match row.event {
            "getrq" => _ = next.insert(row.pid, Io::of(row)),
            "ioc_cost" if !merged => {
                if let Some(io) = next.get(&row.pid).cloned() {
                    io.name(row);
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::event::Kind;

    fn seen(at: u64, cpu: u16, row: &str) -> Seen {
        let point = POINTS.iter().find(|point| point.row == row).unwrap();
        let values = if point.values.is_empty() { String::new() } else { format!("{}=1", point.values[0]) };
        let group = if point.of == Controller::IoMax { Err(42) } else { Ok("a/x".to_owned()) };
        Seen { at, cpu, pid: 7, point, values, group, sector: 8, bytes: 4096, opf: 0x8801, jiffies: 0 }
    }

    #[test]
    fn an_io_is_told_by_its_place_and_letters_and_a_group_by_its_path() {
        let paths = BTreeMap::from([(42, "b".to_owned())]);
        let rows = rows_of(
            vec![seen(30, 0, "ioc_idle"), seen(20, 1, "bio_submit"), seen(9, 0, "wbt_timer")],
            10,
            "8:0",
            &paths,
        );
        let told: Vec<_> = rows.iter().map(|row| (row.at, row.event, row.flags.as_str(), row.group.as_str())).collect();
        assert_eq!(told, [(10, "bio_submit", "SI", "b"), (20, "ioc_idle", "now=1", "a/x")], "none of before the first");
        assert_eq!(
            (rows[0].sector, rows[0].bytes, rows[0].op.as_str(), rows[0].pid),
            (Some(8), Some(4096), "W", Some(7))
        );
        assert_eq!((rows[1].sector, rows[1].op.as_str(), rows[1].pid), (None, "", None));
    }

    #[test]
    fn the_period_of_another_disk_is_left_out() {
        // Ours on CPU 0; another's on CPU 1, and between ours; the last has nothing behind it that tells.
        let events = [(1, 0, "ioc_period"), (2, 1, "ioc_period"), (3, 0, "ioc_period_start"), (4, 1, "ioc_period")];
        let more = [(5, 1, "ioc_period_start"), (6, 0, "ioc_period"), (7, 0, "ioc_period"), (8, 0, "ioc_vrate")];
        let all = events.into_iter().chain(more).map(|(at, cpu, row)| seen(at, cpu, row)).collect();
        let at: Vec<u64> = rows_of(all, 0, "8:0", &BTreeMap::new()).iter().map(|row| row.at).collect();
        assert_eq!(at, [1, 3, 4, 5, 7, 8]);
    }

    #[test]
    fn a_charge_names_its_piece_or_what_was_merged() {
        let row = |at: u64, event: &'static str, sector: Option<u64>| Row {
            event,
            sector,
            bytes: sector.map(|_| 4096),
            ..seen(at, 0, "ioc_cost").row(0, "8:0", &BTreeMap::new()).unwrap()
        };
        let mut rows = [
            row(0, "bio_queue", Some(0)),
            row(1, "split", Some(8)),
            row(2, "ioc_cost", None),
            row(3, "getrq", Some(8)),
            row(4, "bio_queue", Some(16)),
            row(5, "bio_backmerge", Some(16)),
            row(6, "ioc_cost", None),
            row(7, "getrq", Some(32)),
        ];
        name_charged(&mut rows);
        assert_eq!((rows[2].sector, rows[6].sector), (Some(8), Some(16)));
    }

    #[test]
    fn a_setting_is_told_where_it_is_for_this_disk() {
        let told = |row: &str, text: &str| setting(row, &one_line(text), "8:0", "a/x");
        assert_eq!(told("group_weight", "300\n").as_deref(), Some("group=a/x weight=300"));
        assert_eq!(told("group_weight", "default 7").as_deref(), Some("group=a/x weight=7"));
        assert_eq!(told("group_weight", "8:0 9").as_deref(), Some("group=a/x weight=9"));
        assert_eq!(told("mark", "8:0 rbps=5  riops=max\n").as_deref(), Some("io.max group=a/x rbps=5 riops=max"));
        assert_eq!(told("qos", "8:0 enable=1 min=50.00").as_deref(), Some("qos enable=1 min=50.00"));
        let others =
            [("group_weight", "8:16 9"), ("group_weight", "many"), ("group_weight", ""), ("mark", "8:01 rbps=5")];
        assert!(others.iter().all(|(row, text)| told(row, text).is_none()));
        assert_eq!(one_line("8:0 rbps=1,\u{7}2"), "8:0 rbps=12", "a comma would end the column");
    }

    #[test]
    fn a_record_gives_the_values_that_its_row_has() {
        let text = "ID: 7\n\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\
                    \tfield:u64 vtime;\toffset:8;\tsize:8;\tsigned:0;\n\tfield:u64 vnow;\toffset:16;\tsize:8;\tsigned:0;\n\
                    \tfield:u64 debt;\toffset:24;\tsize:8;\tsigned:0;\n";
        let place = POINTS.iter().position(|point| point.row == "ioc_kick").unwrap() as u8;
        let format = Format::parse(Kind::Controller(place), text).unwrap();
        let mut data = vec![0; 32];
        data[8] = 9;
        data[16] = 4;
        let seen = Seen::of(place, &format, 5, 0, &data).unwrap();
        assert_eq!(seen.values, "budget=-5 debt=0", "what a kernel does not tell is left out");
    }
}
