//! Headers of archives and of tools: field lists of which the format and the units are known.

use super::columns::Columns;
use super::format::Format;

/// What a known header means.
#[derive(Debug)]
pub(crate) struct KnownHeader {
    /// The tool or archive.
    pub(crate) name: &'static str,
    pub(crate) format: Format,
    /// For [`Format::Columns`].
    pub(crate) columns: Option<Columns>,
}

/// Field lists of archives: the archive, its fields, and its format or else its columns.
const ARCHIVES: &[(&str, &str, Result<Format, &str>)] = &[
    ("MSR Cambridge", "timestamp,hostname,disknumber,type,offset,size,responsetime", Ok(Format::Msr)),
    ("SYSTOR '17", "timestamp,response,iotype,lun,offset,size", Ok(Format::Systor)),
    (
        "SYSTOR '17",
        "timestamp,iotype,lun,offset,size,response",
        Err("time_s,op,device,offset_bytes,size_bytes,latency_s"),
    ),
    ("SYSTOR '17", "timestamp,iotype,lun,offset,size", Err("time_s,op,device,offset_bytes,size_bytes")),
    ("Alibaba", "deviceid,opcode,offset,length,timestamp", Ok(Format::Alibaba)),
    ("Alibaba", "deviceid,op,offset,length,timestamp", Ok(Format::Alibaba)),
    ("Tencent", "timestamp,offset,size,iotype,volumeid", Ok(Format::Tencent)),
    ("FIU", "timestamp,pid,process,lba,size,op,major,minor,md5", Ok(Format::Fiu)),
    ("FIU", "ts,pid,process,lba,size,rw,major,minor,md5", Ok(Format::Fiu)),
    ("FIU", "time,pid,process,block,blocks,rw,major,minor,md5", Ok(Format::Fiu)),
    (
        "FIU",
        "tsinns,pid,process,lba,sizein512bytesblocks,writeorread,majordevicenumber,minordevicenumber,md5per4096bytes",
        Ok(Format::Fiu),
    ),
    ("K5cloud", "id,timestamp,type,offset,length", Err("device,time_s,op,offset_bytes,size_bytes")),
    ("K5cloud", "id,timestamp,type,offset,size", Err("device,time_s,op,offset_bytes,size_bytes")),
    ("K5cloud", "storagevolumeid,timestamp,opcode,offset,size", Err("device,time_s,op,offset_bytes,size_bytes")),
    ("K5cloud", "storagevolumeid,timestamp,type,offset,length", Err("device,time_s,op,offset_bytes,size_bytes")),
    ("K5cloud", "volumeid,timestamp,type,offset,length", Err("device,time_s,op,offset_bytes,size_bytes")),
    ("CloudPhysics", "ts,lba,op,size", Err("time_us,lba,op,size_bytes")),
    ("CloudPhysics", "timestamp,op,lbn,len", Ok(Format::CloudPhysics)),
    ("SPC", "asu,lba,size,opcode,timestamp", Ok(Format::Spc)),
    ("SPC", "applicationspecificunit,lba,size,opcode,timestamp", Ok(Format::Spc)),
    ("SPC", "asu,lba,size,op,timestamp", Ok(Format::Spc)),
    ("SPC", "asu,lba,size,opcode,time", Ok(Format::Spc)),
    ("MQSim", "time,device,lba,size,type", Ok(Format::Mqsim)),
];

/// A tool that prints a line for each request.
struct Tool {
    name: &'static str,
    /// Fields that all its headers have.
    has: &'static [&'static str],
    /// Fields that it may have, and their columns.
    columns: &'static [(&'static str, &'static str)],
}

const TOOLS: &[Tool] = &[
    Tool {
        name: "biosnoop",
        has: &["comm", "pid", "sector", "bytes", "latms"],
        columns: &[
            ("times", "completed_s"),
            ("time", "completed_s"),
            ("timestamp", "completed_s"),
            ("comm", "comm"),
            ("pid", "pid"),
            ("disk", "disk"),
            ("t", "op"),
            ("sector", "sector"),
            ("bytes", "bytes"),
            ("quems", "wait_ms"),
            ("latms", "service_ms"),
        ],
    },
    Tool {
        name: "iosnoop",
        has: &["comm", "pid", "type", "dev", "block", "bytes", "latms"],
        columns: &[
            ("starts", "time_s"),
            ("times", "completed_s"),
            ("ends", "completed_s"),
            ("comm", "comm"),
            ("pid", "pid"),
            ("type", "op"),
            ("dev", "disk"),
            ("block", "sector"),
            ("bytes", "bytes"),
            ("latms", "latency_ms"),
        ],
    },
    Tool {
        name: "iosnoop of DTrace",
        has: &["uid", "pid", "d", "block", "size", "comm"],
        columns: &[
            ("stimeus", "time_us"),
            ("stime", "time_us"),
            ("timeus", "completed_us"),
            ("time", "completed_us"),
            ("dtimeus", "service_us"),
            ("dtime", "service_us"),
            ("pid", "pid"),
            ("d", "op"),
            ("block", "sector"),
            ("size", "bytes"),
            ("comm", "comm"),
            ("device", "disk"),
        ],
    },
];

/// Lines in front of a header: a banner, the prompt with the command.
const LINES_BEFORE: usize = 8;

/// Letters and digits of a name, in lower case.
fn plain(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
}

/// The first known header among the first lines.
pub(crate) fn find(lines: &[&[u8]]) -> Option<KnownHeader> {
    lines.iter().take(LINES_BEFORE).find_map(|line| known(std::str::from_utf8(line).ok()?))
}

fn known(line: &str) -> Option<KnownHeader> {
    let text = line.trim_start_matches(['#', '\u{feff}']).trim();
    let delimiter = [',', ';', '\t', '|'].into_iter().find(|d| text.contains(*d)).unwrap_or(' ');
    let bracketed = text.contains("] [");
    let fields = || -> Vec<&str> {
        match bracketed {
            true => text.split("] [").collect(),
            false => text.split(delimiter).filter(|f| delimiter != ' ' || !f.is_empty()).collect(),
        }
    };
    let names: Vec<String> = fields().into_iter().map(plain).collect();
    if names.len() < 4 {
        return None;
    }
    let list = names.join(",");
    if let Some((name, _, meant)) = ARCHIVES.iter().find(|(_, fields, _)| *fields == list) {
        let columns = meant.err().map(|columns| Columns::parse(columns).expect("a test parses them"));
        return Some(KnownHeader { name, format: meant.unwrap_or(Format::Columns), columns });
    }
    let all = |wanted: &[&str]| wanted.iter().all(|name| names.iter().any(|own| own == name));
    let tool = TOOLS.iter().find(|tool| all(tool.has))?;
    let column = |own: &String| tool.columns.iter().find(|(name, _)| name == own).map_or("_", |(_, column)| column);
    let columns = Columns::parse(&names.iter().map(column).collect::<Vec<_>>().join(",")).ok()?;
    Some(KnownHeader { name: tool.name, format: Format::Columns, columns: Some(columns) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_column_list_is_one() {
        for (name, fields, meant) in ARCHIVES {
            let columns =
                meant.map_or_else(|list| Columns::parse(list).unwrap(), |f| f.row().layout.as_ref().unwrap().list());
            assert_eq!(columns.list.len(), fields.split(',').count(), "{name}: {fields}");
            assert_eq!(known(fields).unwrap().name, *name);
        }
    }

    #[test]
    fn headers_of_tools_give_their_columns() {
        for (line, expected) in [
            (
                "TIME(s)     COMM           PID     DISK      T SECTOR     BYTES  LAT(ms)",
                "completed_s,comm,pid,disk,op,sector,bytes,service_ms",
            ),
            (
                "TIME(s) COMM PID DISK T SECTOR BYTES QUE(ms) LAT(ms)",
                "completed_s,comm,pid,disk,op,sector,bytes,wait_ms,service_ms",
            ),
            ("TIME COMM PID DISK T SECTOR BYTES P LAT(ms)", "completed_s,comm,pid,disk,op,sector,bytes,_,service_ms"),
            (
                "STARTs ENDs COMM PID TYPE DEV BLOCK BYTES LATms",
                "time_s,completed_s,comm,pid,op,disk,sector,bytes,latency_ms",
            ),
            ("COMM PID TYPE DEV BLOCK BYTES LATms", "comm,pid,op,disk,sector,bytes,latency_ms"),
        ] {
            assert_eq!(known(line).unwrap().columns.unwrap().as_str(), expected);
        }
        // Without a sector it is no trace.
        assert!(known("TIME(ms) DISK COMM PID LAT(ms)").is_none());
    }
}
