//! The header line of delimited text: which columns its names mean, and what to type where they do not say it.

use super::columns::{self, Columns};
use super::error::Unclear;
use super::guess::{self, Sample};
use super::text::header;

/// Lines whose values decide the proposed units.
const LINES_SAMPLED: usize = 16;

/// Column names of the first line.
#[derive(Debug)]
pub(crate) enum Header {
    /// All that a replay needs; the names in `unused` mean nothing to it.
    Understood { columns: Columns, unused: Vec<String> },
    /// Names without a unit, or without a meaning.
    Unclear(Unclear),
}

/// A meaning that the word of a header suggests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meaning {
    Time,
    Completed,
    Event,
    Op,
    Offset,
    Size,
    Latency,
    Device,
    Host,
    Task,
}

/// Words by meaning. The first meaning with a word in a name is taken, so that `response_time` is no arrival.
const WORDS: [(Meaning, &[&str]); 10] = [
    (
        Meaning::Completed,
        &["endtime", "ends", "finish", "finishtime", "completed", "completion", "completiontime", "completetime"],
    ),
    (Meaning::Event, &["event", "act"]),
    (Meaning::Latency, &["latency", "lat", "response", "responsetime", "duration", "elapsed", "servicetime"]),
    (Meaning::Task, &["pid", "tid", "process", "task", "thread"]),
    (Meaning::Host, &["host", "hostname", "server"]),
    (
        Meaning::Device,
        &[
            "device",
            "dev",
            "disk",
            "disknumber",
            "volume",
            "vol",
            "lun",
            "namespace",
            "asu",
            "devno",
            "disknum",
            "volumeid",
            "deviceid",
        ],
    ),
    (
        Meaning::Op,
        &[
            "op",
            "opcode",
            "operation",
            "type",
            "iotype",
            "rw",
            "rwbs",
            "readwrite",
            "optype",
            "iooperation",
            "reqtype",
            "mode",
            "cmd",
            "command",
            "action",
            "direction",
        ],
    ),
    (
        Meaning::Size,
        &[
            "size",
            "iosize",
            "length",
            "len",
            "bytes",
            "nbytes",
            "sectors",
            "nsectors",
            "blocks",
            "count",
            "nrsector",
            "nrsectors",
            "numsectors",
            "nlb",
        ],
    ),
    (
        Meaning::Offset,
        &[
            "offset",
            "off",
            "lba",
            "lbn",
            "sector",
            "block",
            "blkno",
            "byteoffset",
            "startsector",
            "startlba",
            "slba",
            "address",
            "addr",
            "position",
            "pos",
        ],
    ),
    (Meaning::Time, &["time", "timestamp", "ts", "datetime", "date", "arrival", "arrivaltime", "clock"]),
];

/// Reads the first line as a header; `None` if it is not one. `lines` begins with it.
pub(crate) fn read(lines: &[&[u8]]) -> Option<Header> {
    let (first, rest) = lines.split_first()?;
    let comment = first.starts_with(b"#");
    if !header(first) {
        return None;
    }
    let text = std::str::from_utf8(first).ok()?.trim_start_matches('#').trim();
    let delimiter = [',', ';', '\t', '|'].into_iter().find(|d| text.contains(*d)).unwrap_or(' ');
    let names: Vec<&str> = split(text, delimiter);
    let sample: Vec<Vec<&str>> = rest
        .iter()
        .filter(|l| !l.starts_with(b"#"))
        .take(LINES_SAMPLED)
        .filter_map(|l| std::str::from_utf8(l).ok())
        .map(|l| split(l.trim(), delimiter))
        .collect();
    let same_width = sample.first().is_none_or(|values| values.len() == names.len());
    let suggested = names.iter().filter(|n| meaning(&normal(n)).is_some() || columns::known(&normal(n))).count();
    // A sentence in front of the data is no header.
    if names.len() < 2 || suggested < 2 || (!same_width && (comment || delimiter == ' ')) {
        return None;
    }
    // A comment is a header only if it says nothing else.
    if comment && suggested * 2 < names.len() {
        return None;
    }
    Some(judge(&names, &sample))
}

fn split(text: &str, delimiter: char) -> Vec<&str> {
    let fields = text.split(delimiter).map(|n| n.trim().trim_matches('"').trim());
    fields.filter(|n| delimiter != ' ' || !n.is_empty()).collect()
}

/// A name as a column list spells it: `Offset (bytes)` is `offset_bytes`.
fn normal(name: &str) -> String {
    let plain: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' }).collect();
    let words: Vec<&str> = plain.split('_').filter(|w| !w.is_empty()).collect();
    if words.is_empty() { "_".to_owned() } else { words.join("_") }
}

/// Units behind a name, which say nothing of its meaning.
const UNITS: [&str; 14] =
    ["bytes", "byte", "b", "sectors", "sector", "kib", "kb", "k", "4k", "s", "ms", "us", "ns", "100ns"];

fn meaning(normal: &str) -> Option<Meaning> {
    let stem = normal.rsplit_once('_').filter(|(_, unit)| UNITS.contains(unit)).map_or(normal, |(stem, _)| stem);
    let (joined, whole) = (stem.replace('_', ""), normal.replace('_', ""));
    let has = |words: &[&str]| {
        [&joined, &whole].iter().any(|name| words.contains(&name.as_str()))
            || stem.split('_').any(|w| words.contains(&w))
    };
    WORDS.iter().find(|(_, words)| has(words)).map(|(meaning, _)| *meaning)
}

fn judge(names: &[&str], sample: &[Vec<&str>]) -> Header {
    let normals: Vec<String> = names.iter().map(|n| normal(n)).collect();
    let values = |i: usize| Sample::of(sample.iter().filter_map(|row| row.get(i).copied()));
    let named_op = |i: usize| ["op", "opcode", "type", "rw"].contains(&normals[i].as_str());
    // A digit may be a read or a write, and a letter an event.
    let doubtful = |i: usize| named_op(i) && (values(i).digits() || values(i).events());
    let unclear: Vec<usize> = (0..names.len()).filter(|i| !columns::known(&normals[*i]) || doubtful(*i)).collect();
    let list: Vec<&str> = normals.iter().map(|n| if columns::known(n) { n.as_str() } else { "_" }).collect();
    let understood = Columns::parse(&list.join(",")).ok();
    let without_meaning = unclear.iter().all(|i| meaning(&normals[*i]).is_none());
    if let Some(columns) = understood
        && (unclear.is_empty() || without_meaning && columns.known().times && columns.known().sizes)
    {
        let unused = unclear.iter().map(|i| names[*i].to_owned()).collect();
        return Header::Understood { columns, unused };
    }
    let time = (0..names.len()).find(|i| meaning(&normals[*i]) == Some(Meaning::Time));
    let time = time.map_or("us", |i| unit_of(&normals[i]).unwrap_or_else(|| values(i).time_unit()));
    let mut proposed = guess::Proposal::new(names.len());
    for (i, name) in normals.iter().enumerate() {
        let of = values(i);
        let column = match meaning(name) {
            Some(Meaning::Op) if of.events() => "event".to_owned(),
            Some(Meaning::Event) if of.tells_requests() => "event".to_owned(),
            Some(Meaning::Event) => continue,
            _ if columns::known(name) && !doubtful(i) => name.clone(),
            None => continue,
            Some(Meaning::Time) => format!("time_{}", unit_of(name).unwrap_or(time)),
            Some(Meaning::Completed) => format!("completed_{}", unit_of(name).unwrap_or_else(|| of.time_unit())),
            Some(Meaning::Latency) => format!("latency_{}", unit_of(name).unwrap_or_else(|| of.latency_unit(time))),
            Some(Meaning::Offset) => format!("offset_{}", length_of(name).unwrap_or_else(|| of.length_unit())),
            Some(Meaning::Size) => format!("size_{}", length_of(name).unwrap_or_else(|| of.length_unit())),
            Some(Meaning::Op) if of.digits() => "op_read1".to_owned(),
            // Words that no operation has, such as those of an error.
            Some(Meaning::Op) if !of.operations() => continue,
            Some(Meaning::Op) => "op".to_owned(),
            Some(Meaning::Device) => "device".to_owned(),
            Some(Meaning::Host) => "host".to_owned(),
            Some(Meaning::Task) => "task".to_owned(),
        };
        proposed.add(i, &column, &of);
    }
    let all: Vec<Sample> = (0..names.len()).map(values).collect();
    proposed.complete(&all);
    let names = unclear.iter().map(|i| names[*i].to_owned()).collect();
    Header::Unclear(Unclear { names, proposal: proposed.list() })
}

/// The unit of time at the end of a name, as `ms` of `lat_ms`.
fn unit_of(normal: &str) -> Option<&'static str> {
    let unit = normal.rsplit_once('_')?.1;
    let of = |units: &[(&str, &'static str)]| units.iter().find(|(word, _)| *word == unit).map(|(_, unit)| *unit);
    of(&[
        ("s", "s"),
        ("sec", "s"),
        ("seconds", "s"),
        ("ms", "ms"),
        ("msec", "ms"),
        ("us", "us"),
        ("usec", "us"),
        ("ns", "ns"),
        ("nsec", "ns"),
        ("100ns", "100ns"),
    ])
}

/// The unit of length at the end of a name.
fn length_of(normal: &str) -> Option<&'static str> {
    match normal.rsplit_once('_')?.1 {
        "bytes" | "byte" | "b" => Some("bytes"),
        "sectors" | "sector" | "512" => Some("sectors"),
        "kib" | "kb" | "k" => Some("kib"),
        "4k" => Some("4k"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Option<Header> {
        read(&text.lines().map(str::as_bytes).collect::<Vec<_>>())
    }

    fn proposal(text: &str) -> (String, bool) {
        match of(text) {
            Some(Header::Unclear(unclear)) => {
                (unclear.proposal.clone().unwrap_or_default(), unclear.proposal.is_some())
            }
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn names_without_units_are_unclear_and_a_list_is_proposed() {
        for (text, list) in [
            ("timestamp,type,offset,size\n17,R,4096,512\n", "time_us,type,offset_bytes,size_bytes"),
            (
                "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime\n128166372003061629,usr,0,Read,7014609920,24576,41286\n",
                "time_100ns,hostname,device,type,offset_bytes,size_bytes,latency_100ns",
            ),
            ("ts;rw;lba;count\n0.5;1;17;8\n", "time_s,op_read1,lba,size_sectors"),
            ("# time op sector length\n1.5 R 8 8\n", "time_s,op,sector,size_sectors"),
            (
                "time_us,op,offset_bytes,size_bytes,latency\n1,R,0,512,7\n",
                "time_us,op,offset_bytes,size_bytes,latency_us",
            ),
            ("time_us,op,offset_bytes,length\n1,R,0,512\n", "time_us,op,offset_bytes,size_bytes"),
        ] {
            let (proposed, complete) = proposal(text);
            assert_eq!(proposed, list, "{text}");
            assert!(complete);
        }
        assert!(!proposal("when,type,size\n1,R,512\n").1);
    }

    #[test]
    fn names_with_units_are_understood_and_other_columns_are_named() {
        let text = "Time (us),op,Offset (bytes),size_bytes,junk\n1,R,0,512,x\n";
        let Some(Header::Understood { columns, unused }) = of(text) else { panic!("{:?}", of(text)) };
        assert_eq!(columns.as_str(), "time_us,op,offset_bytes,size_bytes,_");
        assert_eq!(unused, ["junk"]);
    }

    #[test]
    fn sentences_and_data_are_no_headers() {
        for text in [
            "hello world\n1 2\n",
            "Read,4096\nWrite,0\n",
            "1,R,0,512\n",
            "# a comment, nothing else\n1,R,0,4\n",
            "x,y\n1,2\n",
        ] {
            assert!(of(text).is_none(), "{text}: {:?}", of(text));
        }
    }
}
