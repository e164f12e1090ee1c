//! The header line of delimited text: which columns its names mean, and what to type where they do not say it.

use super::columns::{self, Columns};
use super::error::Unclear;
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
    Op,
    Offset,
    Size,
    Latency,
    Device,
    Host,
    Task,
}

/// Words by meaning. The first meaning with a word in a name is taken, so that `response_time` is no arrival.
const WORDS: [(Meaning, &[&str]); 8] = [
    (Meaning::Latency, &["latency", "lat", "response", "responsetime", "duration", "elapsed", "servicetime"]),
    (Meaning::Task, &["pid", "tid", "process", "task", "thread"]),
    (Meaning::Host, &["host", "hostname", "server"]),
    (Meaning::Device, &["device", "dev", "disk", "disknumber", "volume", "vol", "lun", "namespace", "asu", "devno"]),
    (
        Meaning::Op,
        &["op", "opcode", "operation", "type", "iotype", "rw", "rwbs", "cmd", "command", "action", "direction"],
    ),
    (Meaning::Size, &["size", "iosize", "length", "len", "bytes", "nbytes", "sectors", "nsectors", "blocks", "count"]),
    (
        Meaning::Offset,
        &["offset", "off", "lba", "lbn", "sector", "block", "blkno", "address", "addr", "position", "pos"],
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
    let joined = stem.replace('_', "");
    let has = |words: &[&str]| words.contains(&joined.as_str()) || stem.split('_').any(|w| words.contains(&w));
    WORDS.iter().find(|(_, words)| has(words)).map(|(meaning, _)| *meaning)
}

fn judge(names: &[&str], sample: &[Vec<&str>]) -> Header {
    let normals: Vec<String> = names.iter().map(|n| normal(n)).collect();
    let values = |i: usize| sample.iter().filter_map(move |row| row.get(i).copied());
    // A digit may be a read or a write.
    let digits =
        |i: usize| ["op", "opcode", "type", "rw"].contains(&normals[i].as_str()) && op_column(values(i)) != "op";
    let unclear: Vec<usize> = (0..names.len()).filter(|i| !columns::known(&normals[*i]) || digits(*i)).collect();
    let list: Vec<&str> = normals.iter().map(|n| if columns::known(n) { n.as_str() } else { "_" }).collect();
    let understood = Columns::parse(&list.join(",")).ok();
    let without_meaning = unclear.iter().all(|i| meaning(&normals[*i]).is_none());
    if let Some(columns) = understood
        && (unclear.is_empty() || without_meaning && columns.known().times && columns.known().sizes)
    {
        let unused = unclear.iter().map(|i| names[*i].to_owned()).collect();
        return Header::Understood { columns, unused };
    }
    let mut used: Vec<Meaning> = Vec::new();
    let mut proposed: Vec<String> = Vec::new();
    for (i, name) in normals.iter().enumerate() {
        let meant = meaning(name).filter(|m| !used.contains(m));
        let known = columns::known(name);
        used.extend(meant);
        proposed.push(match meant {
            _ if known && !digits(i) => name.clone(),
            None => "_".to_owned(),
            Some(Meaning::Time) => format!("time_{}", time_unit(values(i))),
            Some(Meaning::Latency) => format!("latency_{}", latency_unit(values(i))),
            Some(Meaning::Offset) => format!("offset_{}", length_unit(values(i))),
            Some(Meaning::Size) => format!("size_{}", length_unit(values(i))),
            Some(Meaning::Op) => op_column(values(i)).to_owned(),
            Some(Meaning::Device) => "device".to_owned(),
            Some(Meaning::Host) => "host".to_owned(),
            Some(Meaning::Task) => "task".to_owned(),
        });
    }
    let proposal = proposed.join(",");
    let complete = Columns::parse(&proposal).is_ok();
    let names = unclear.iter().map(|i| names[*i].to_owned()).collect();
    Header::Unclear(Unclear { names, proposal, complete })
}

/// The likely unit of arrival times: seconds if they have decimals, else by the size of a time since 1970 (or 1601).
fn time_unit<'a>(mut values: impl Iterator<Item = &'a str>) -> &'static str {
    match values.next() {
        Some(v) if v.contains('.') => "s",
        Some(v) => match v.parse::<u64>().unwrap_or(0) {
            1_000_000_000..=9_999_999_999 => "s",
            1_000_000_000_000..=9_999_999_999_999 => "ms",
            100_000_000_000_000_000..=199_999_999_999_999_999 => "100ns",
            1_000_000_000_000_000_000.. => "ns",
            _ => "us",
        },
        None => "us",
    }
}

fn latency_unit<'a>(mut values: impl Iterator<Item = &'a str>) -> &'static str {
    if values.next().is_some_and(|v| v.contains('.')) { "ms" } else { "us" }
}

/// Bytes where every value is a multiple of 512, else sectors.
fn length_unit<'a>(values: impl Iterator<Item = &'a str>) -> &'static str {
    let all = values.map(|v| v.parse::<u64>()).all(|n| n.is_ok_and(|n| n.is_multiple_of(512)));
    if all { "bytes" } else { "sectors" }
}

/// Letters and words, or digits whose sense is a guess.
fn op_column<'a>(mut values: impl Iterator<Item = &'a str>) -> &'static str {
    if values.next().is_some_and(|v| v == "0" || v == "1") { "op_read1" } else { "op" }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Option<Header> {
        read(&text.lines().map(str::as_bytes).collect::<Vec<_>>())
    }

    fn proposal(text: &str) -> (String, bool) {
        match of(text) {
            Some(Header::Unclear(unclear)) => (unclear.proposal, unclear.complete),
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn names_without_units_are_unclear_and_a_list_is_proposed() {
        for (text, list) in [
            ("timestamp,type,offset,size\n17,R,4096,512\n", "time_us,type,offset_bytes,size_bytes"),
            (
                "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime\n128166372003061629,usr,0,Read,7014609920,24576,41286\n",
                "time_100ns,hostname,device,type,offset_bytes,size_bytes,latency_us",
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
