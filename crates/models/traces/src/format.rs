//! The trace formats: one row each, with its reader and its writer.
//!
//! A new format is a row, and for what is not delimited text a file with its reader. The order of the rows is that of
//! preference where several formats fit a file.

use std::path::Path;

use super::columns::Layout;
use super::error::Error;
use super::input::Input;
use super::iolog::{self, HEAD2, HEAD3, Iolog};
use super::record::Arrival;
use super::record_writer::Start;
use super::text::{LineParser, Opened, Opening, first_lines};
use super::{blkparse, blktrace, columnar, etw, ftrace, hp_srt, table, vscsi};

/// The kinds of event in the start (or all) of a file.
pub(crate) type Arrivals = fn(&[u8], bool) -> Vec<Arrival>;

/// All that there is to say of a format.
pub(crate) struct FormatRow {
    pub(crate) format: Format,
    /// The name on the command line and in JSON.
    pub(crate) name: &'static str,
    about: &'static str,
    /// Another name, and the extension of file names that is neither.
    also: &'static str,
    extension: &'static str,
    /// Whether a file begins as only this format does.
    pub(crate) begins: fn(&[u8]) -> bool,
    /// Layout of delimited text.
    pub(crate) layout: Option<Layout>,
    /// The parser of lines of other text, with which detection tries it.
    pub(crate) parser: Option<fn() -> Box<dyn LineParser>>,
    /// Whether lines that it parsed are plausible for it; `None` if they are of another format.
    pub(crate) plausible: fn(&Tried) -> Option<bool>,
    pub(crate) open: fn(Input, &Opening) -> Opened,
    /// Of formats whose traces have several events of a request: which may count as its arrival.
    pub(crate) arrivals: Option<Arrivals>,
    /// Whether its lines are in the order of completions.
    pub(crate) completions: bool,
    /// A note for users on its traces.
    pub(crate) note: Option<&'static str>,
    pub(crate) writer: Option<Start>,
}

/// Findings in the first lines of a file.
#[derive(Default)]
pub(crate) struct Tried {
    pub(crate) events: usize,
    /// Events at whole 2 MiB, and at whole seconds.
    pub(crate) aligned: usize,
    pub(crate) whole_seconds: usize,
    /// Ranges were widened.
    pub(crate) changed: bool,
    /// There is a decimal point.
    pub(crate) decimals: bool,
}

/// A row of delimited text, and what the rows of other formats begin with.
const fn row(name: &'static str) -> FormatRow {
    FormatRow {
        format: Format::Columns,
        name,
        about: "",
        also: "",
        extension: "",
        begins: |_| false,
        layout: None,
        parser: None,
        plausible: |tried| (tried.events > 0).then_some(true),
        open: table::open,
        arrivals: None,
        completions: false,
        note: None,
        writer: Some(table::writer),
    }
}

const fn comma(columns: &'static str) -> Layout {
    Layout { columns, delimiter: b',', extra: false, decimals: None, header: None }
}

const fn space(columns: &'static str, decimals: Option<usize>) -> Layout {
    Layout { columns, delimiter: b' ', extra: false, decimals, header: None }
}

/// Two formats differ only in the unit of the offset: written files say it.
const fn replay_log(columns: &'static str) -> Layout {
    Layout { decimals: Some(3), header: Some(columns), ..comma(columns) }
}

const fn delimited(name: &'static str, layout: Layout) -> FormatRow {
    FormatRow { layout: Some(layout), ..row(name) }
}

/// From variant, description and row of each format: [`Format`] and the rows.
macro_rules! formats {
    ($($variant:ident: $about:literal, $row:expr;)*) => {
        /// A trace format.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Format {
            $(#[doc = $about] $variant,)*
        }

        impl Format {
            /// All formats, in the order of preference of detection.
            pub const ALL: [Format; ROWS.len()] = [$(Format::$variant),*];
        }

        pub(crate) const ROWS: &[FormatRow] =
            &[$(FormatRow { format: Format::$variant, about: $about, ..$row }),*];
    };
}

formats! {
    Columnar: "our own compressed columns (.dwt)", FormatRow {
        extension: "dwt",
        begins: |start| start.starts_with(columnar::MAGIC),
        open: columnar::open,
        writer: Some(columnar::writer),
        ..row("columnar")
    };
    Blktrace: "binary per-CPU files of blktrace", FormatRow {
        begins: |start| blktrace::magic(start).is_some(),
        open: blktrace::open,
        arrivals: Some(blktrace::arrivals),
        writer: None,
        ..row("blktrace")
    };
    HpSrt: "HP SRT 1.x binary",
        FormatRow { begins: hp_srt::detect, open: hp_srt::open, writer: None, ..row("hp-srt") };
    Vscsi: "CloudPhysics/VMware vscsi records, version 1 or 2", FormatRow {
        begins: |start| vscsi::detect(start).is_some(),
        open: vscsi::open,
        writer: Some(vscsi::writer),
        ..row("vscsi")
    };
    Iolog2: "fio iolog version 2 (with waits)", FormatRow {
        begins: |start| start.starts_with(HEAD2),
        parser: Some(|| Box::new(Iolog::new(false))),
        open: |input, opening| iolog::open(input, opening, false),
        writer: Some(|out, _| iolog::writer(out, false)),
        ..row("iolog2")
    };
    Iolog3: "fio iolog version 3 (with times)", FormatRow {
        extension: "iolog",
        begins: |start| start.starts_with(HEAD3),
        parser: Some(|| Box::new(Iolog::new(true))),
        open: |input, opening| iolog::open(input, opening, true),
        writer: Some(|out, _| iolog::writer(out, true)),
        ..row("iolog3")
    };
    Blkparse: "text of blkparse, its default line", FormatRow {
        parser: Some(|| Box::new(blkparse::Blkparse::new(Arrival::Queue, 0))),
        // Files without a Q or D event in the first lines are recognised by their shape.
        plausible: |_| Some(true),
        open: blkparse::open,
        arrivals: Some(blkparse::arrivals),
        writer: Some(blkparse::writer),
        ..row("blkparse")
    };
    Ftrace: "block tracepoints as text: trace_pipe of tracefs, trace-cmd report, perf script", FormatRow {
        also: "perf",
        parser: Some(|| Box::new(ftrace::Ftrace::new(Arrival::Queue))),
        begins: |start| first_lines(start, false).iter().take(64).any(|line| ftrace::is_event(line)),
        open: ftrace::open,
        arrivals: Some(ftrace::arrivals),
        writer: None,
        ..row("ftrace")
    };
    Etw: "text of Windows' event tracing: Microsoft's servers, TPC-C, TPC-E", FormatRow {
        begins: etw::begins,
        open: etw::open,
        completions: true,
        writer: None,
        ..row("etw")
    };
    Msr: "MSR Cambridge CSV: 100-ns ticks, host, disk, Read/Write, byte offset, bytes, response time",
        delimited("msr", comma("time_100ns,host,device,op_word,offset_bytes,size_bytes,latency_100ns"));
    Systor: "SYSTOR '17: seconds, response in s, R/W, LUN, byte offset, bytes", delimited("systor", Layout {
        decimals: Some(9),
        header: Some("Timestamp,Response,IOType,LUN,Offset,Size"),
        ..comma("time_s,latency_s,op,device,offset_bytes,size_bytes")
    });
    Fiu: "FIU: ns, pid, process, sector, sectors, R/W, major, minor, MD5",
        delimited("fiu", space("time_ns,task,name,offset_sectors,size_sectors,op,major,minor,_", None));
    DisksimValid: "DiskSim validation: R/W, cache outcome, block, blocks, service us, us to the next",
        delimited("disksim-valid", space("op,_,offset_sectors,size_sectors,latency_us,gap_us", Some(6)));
    HpCsv: "HP SRT records as text", delimited("hp-csv", Layout {
        header: Some("enqueue_us,op,sync,devno_hex,disk,sector256,bytes,start_us,stop_us,qlen"),
        ..comma("time_us,op,sync,_,device,offset_256,size_bytes,wait_us,latency_us,_")
    });
    Spc: "SPC (UMass): ASU, sector, bytes, r/w, seconds", delimited("spc", Layout {
        extra: true,
        decimals: Some(6),
        ..comma("device,offset_sectors,size_bytes,op_lower,time_s")
    });
    Alibaba: "Alibaba block traces: device, R/W, byte offset, bytes, us",
        delimited("alibaba", comma("device,op,offset_bytes,size_bytes,time_us"));
    CloudPhysics: "CloudPhysics records as text: us, op, sector, bytes", delimited("cloudphysics", Layout {
        header: Some("time_us,op,lbn,len_bytes"),
        ..comma("time_us,op,lbn,len_bytes")
    });
    Tencent: "Tencent block traces: seconds, sector, sectors, 0 = read, volume",
        delimited("tencent", comma("time_s,offset_sectors,size_sectors,op_write1,device"));
    TencentCut: "seven columns of a LinnOS/Heimdall replay log, offset in sectors", FormatRow {
        plausible: |tried| {
            let coarse = tried.aligned == tried.events && tried.whole_seconds == tried.events;
            (tried.events > 0).then_some(coarse)
        },
        note: Some("times are whole seconds and offsets are floored to 2 MiB in this source"),
        ..delimited("tencent-cut", replay_log("time_ms,latency_us,op_read1,size_bytes,offset_sectors,_,_"))
    };
    Heimdall: "seven columns of a LinnOS/Heimdall replay log, offset in bytes",
        delimited("heimdall", replay_log("time_ms,latency_us,op_read1,size_bytes,offset_bytes,_,_"));
    MsrCut: "five columns of the LinnOS and Heimdall cuts: ms, device, byte offset, bytes, 1 = read", FormatRow {
        also: "linnos",
        // A value that is not a multiple of 512 is in sectors.
        plausible: |tried| (tried.events > 0).then_some(!tried.changed),
        ..delimited("msr-cut", space("time_ms,device,offset_bytes,size_bytes,op_read1", Some(3)))
    };
    Mqsim: "MQSim: ns, device, sector, sectors, 1 = read", FormatRow {
        // It counts whole nanoseconds.
        plausible: |tried| (tried.events > 0 && !tried.decimals).then_some(true),
        ..delimited("mqsim", space("time_ns,device,offset_sectors,size_sectors,op_read1", None))
    };
    Disksim: "DiskSim ascii: ms, device, block, blocks, hex flags (bit 0 = read)",
        delimited("disksim", space("time_ms,device,offset_sectors,size_sectors,op_hex", Some(6)));
    Order: "Read/Write and byte offset only: an order without times and sizes",
        delimited("order", comma("op_word,offset_bytes"));
    Columns: "delimited text by --columns", row("columns");
}

impl Format {
    pub(crate) fn row(self) -> &'static FormatRow {
        &ROWS[self as usize]
    }

    /// The name on the command line and in JSON.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// The format with this name; `linnos` is another name of `msr-cut`.
    ///
    /// # Errors
    /// An unknown name.
    pub fn parse(name: &str) -> Result<Format, Error> {
        let name = name.trim().to_ascii_lowercase();
        let found = ROWS.iter().find(|row| row.name == name || !name.is_empty() && row.also == name);
        let names = || Format::ALL.map(Format::name).join(", ");
        found.map(|row| row.format).ok_or_else(|| Error::option("format", name.as_str(), names()))
    }

    /// The format of a file name's extension, before `.zst` or `.gz`.
    pub fn of_file_name(path: &Path) -> Option<Format> {
        let name = path.file_name()?.to_string_lossy().to_ascii_lowercase();
        let stem = name.strip_suffix(".zst").or_else(|| name.strip_suffix(".gz")).unwrap_or(&name);
        let extension = stem.rsplit_once('.')?.1;
        let own = ROWS.iter().find(|row| !extension.is_empty() && row.extension == extension);
        own.map(|row| row.format).or_else(|| Format::parse(extension).ok())
    }

    /// A short description.
    pub fn about(self) -> &'static str {
        self.row().about
    }

    /// Whether [`TraceWriter`](crate::TraceWriter) can write it.
    pub fn writable(self) -> bool {
        self.row().writer.is_some()
    }
}

impl std::fmt::Display for Format {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl std::str::FromStr for Format {
    type Err = Error;

    fn from_str(name: &str) -> Result<Format, Error> {
        Format::parse(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_layout_parses_and_every_name_is_unique() {
        for format in Format::ALL {
            assert_eq!(Format::parse(format.name()).unwrap(), format);
            assert_eq!(format.row().format, format);
            if let Some(layout) = &format.row().layout {
                layout.list();
            }
        }
        assert_eq!(Format::parse("LinnOS").unwrap(), Format::MsrCut);
        assert!(Format::parse("pcap").unwrap_err().to_string().contains("blkparse"));
    }

    /// The table of docs/traces.md has a row for each format, with its names.
    #[test]
    fn the_manual_has_every_format() {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/traces.md");
        let manual = std::fs::read_to_string(page).unwrap();
        let table = manual.split_once("| name | source |").unwrap().1.split_once("\n\n").unwrap().0;
        let first = |line: &str| line.split('|').nth(1).map(|cell| cell.trim().to_string());
        let mut described: Vec<String> = table.lines().skip(2).filter_map(first).collect();
        let names = |row: &FormatRow| match row.also {
            "" => format!("`{}`", row.name),
            also => format!("`{}` (`{also}`)", row.name),
        };
        let mut formats: Vec<String> = ROWS.iter().map(names).collect();
        described.sort_unstable();
        formats.sort_unstable();
        assert_eq!(described, formats);
        let names: Vec<String> =
            ROWS.iter().filter(|row| row.writer.is_none()).map(|row| format!("`{}`", row.name)).collect();
        let (last, others) = names.split_last().unwrap();
        assert!(manual.contains(&format!("Every format but {} and {last} can be written.", others.join(", "))));
    }
}
