//! Trace formats by name, and the layouts of the delimited ones.

use std::path::Path;

use super::columns::Columns;
use super::error::Error;

/// A trace format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Format {
    /// Text of `blkparse`, default line.
    Blkparse,
    /// Binary per-CPU files of `blktrace`.
    Blktrace,
    /// MSR Cambridge: 100-ns ticks, host, disk, Read/Write, byte offset, bytes, response time.
    Msr,
    /// Five columns of the LinnOS and Heimdall cuts: ms, device, byte offset, bytes, 1 = read.
    MsrCut,
    /// `Read,offset` only: order without times and sizes.
    Order,
    /// CloudPhysics records as text: µs, op, sector, bytes.
    CloudPhysics,
    /// CloudPhysics/VMware vscsi records, version 1 or 2.
    Vscsi,
    /// SPC (UMass): ASU, sector, bytes, r/w, seconds.
    Spc,
    /// Alibaba block traces: device, R/W, byte offset, bytes, µs.
    Alibaba,
    /// Tencent block traces: seconds, sector, sectors, 0 = read, volume.
    Tencent,
    /// Seven columns of a LinnOS/Heimdall replay log, offset in 512-byte sectors (its Tencent cuts).
    TencentCut,
    /// Seven columns of a LinnOS/Heimdall replay log, offset in bytes.
    Heimdall,
    /// MQSim: ns, device, sector, sectors, 1 = read.
    Mqsim,
    /// DiskSim ascii: ms, device, block, blocks, hex flags (bit 0 = read).
    Disksim,
    /// DiskSim validation: R/W, cache outcome, block, blocks, service µs, µs to the next request.
    DisksimValid,
    /// HP SRT 1.x binary.
    HpSrt,
    /// HP SRT records as text.
    HpCsv,
    /// FIU: ns, pid, process, sector, sectors, R/W, major, minor, MD5.
    Fiu,
    /// fio iolog version 2 (with `wait`).
    Iolog2,
    /// fio iolog version 3 (µs in front).
    Iolog3,
    /// Delimited text by a list of columns.
    Columns,
    /// Dumbwaiter's own compressed columns.
    Columnar,
}

/// Layout of a delimited format.
pub(crate) struct Layout {
    /// Column list in the syntax of [`Columns::parse`].
    pub(crate) columns: &'static str,
    /// Field delimiter; a space stands for any white space.
    pub(crate) delimiter: u8,
    /// Whether further fields may follow.
    pub(crate) extra: bool,
    /// Fewest decimals of written times; `None` for whole numbers.
    pub(crate) decimals: Option<usize>,
    /// Header line of written files.
    pub(crate) header: Option<&'static str>,
}

impl Format {
    /// All formats, in the order of preference of detection.
    pub const ALL: [Format; 22] = [
        Format::Columnar,
        Format::Blktrace,
        Format::HpSrt,
        Format::Vscsi,
        Format::Iolog2,
        Format::Iolog3,
        Format::Blkparse,
        Format::Msr,
        Format::Fiu,
        Format::DisksimValid,
        Format::HpCsv,
        Format::Spc,
        Format::Alibaba,
        Format::CloudPhysics,
        Format::Tencent,
        Format::TencentCut,
        Format::Heimdall,
        Format::MsrCut,
        Format::Mqsim,
        Format::Disksim,
        Format::Order,
        Format::Columns,
    ];

    /// The name on the command line and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Format::Blkparse => "blkparse",
            Format::Blktrace => "blktrace",
            Format::Msr => "msr",
            Format::MsrCut => "msr-cut",
            Format::Order => "order",
            Format::CloudPhysics => "cloudphysics",
            Format::Vscsi => "vscsi",
            Format::Spc => "spc",
            Format::Alibaba => "alibaba",
            Format::Tencent => "tencent",
            Format::TencentCut => "tencent-cut",
            Format::Heimdall => "heimdall",
            Format::Mqsim => "mqsim",
            Format::Disksim => "disksim",
            Format::DisksimValid => "disksim-valid",
            Format::HpSrt => "hp-srt",
            Format::HpCsv => "hp-csv",
            Format::Fiu => "fiu",
            Format::Iolog2 => "iolog2",
            Format::Iolog3 => "iolog3",
            Format::Columns => "columns",
            Format::Columnar => "columnar",
        }
    }

    /// The format with this name; `linnos` is another name of `msr-cut`.
    ///
    /// # Errors
    /// An unknown name.
    pub fn parse(name: &str) -> Result<Format, Error> {
        let name = name.trim().to_ascii_lowercase();
        let name = if name == "linnos" { "msr-cut" } else { name.as_str() };
        Format::ALL
            .into_iter()
            .find(|f| f.name() == name)
            .ok_or_else(|| Error::option("format", name, Format::ALL.map(Format::name).join(", ")))
    }

    /// The format of a file name's extension, before `.zst` or `.gz`.
    pub fn of_file_name(path: &Path) -> Option<Format> {
        let name = path.file_name()?.to_string_lossy().to_ascii_lowercase();
        let stem = name.strip_suffix(".zst").or_else(|| name.strip_suffix(".gz")).unwrap_or(&name);
        Some(match stem.rsplit_once('.')?.1 {
            "dwt" => Format::Columnar,
            "blkparse" => Format::Blkparse,
            "vscsi" => Format::Vscsi,
            "spc" => Format::Spc,
            "iolog" => Format::Iolog3,
            other => return Format::parse(other).ok(),
        })
    }

    /// A short description.
    pub fn about(self) -> &'static str {
        match self {
            Format::Blkparse => "text of blkparse, its default line",
            Format::Blktrace => "binary per-CPU files of blktrace",
            Format::Msr => "MSR Cambridge CSV: 100-ns ticks, host, disk, Read/Write, byte offset, bytes, response time",
            Format::MsrCut => "five columns of the LinnOS and Heimdall cuts: ms, device, byte offset, bytes, 1 = read",
            Format::Order => "Read/Write and byte offset only: an order without times and sizes",
            Format::CloudPhysics => "CloudPhysics records as text: us, op, sector, bytes",
            Format::Vscsi => "CloudPhysics/VMware vscsi records, version 1 or 2",
            Format::Spc => "SPC (UMass): ASU, sector, bytes, r/w, seconds",
            Format::Alibaba => "Alibaba block traces: device, R/W, byte offset, bytes, us",
            Format::Tencent => "Tencent block traces: seconds, sector, sectors, 0 = read, volume",
            Format::TencentCut => "seven columns of a LinnOS/Heimdall replay log, offset in sectors",
            Format::Heimdall => "seven columns of a LinnOS/Heimdall replay log, offset in bytes",
            Format::Mqsim => "MQSim: ns, device, sector, sectors, 1 = read",
            Format::Disksim => "DiskSim ascii: ms, device, block, blocks, hex flags (bit 0 = read)",
            Format::DisksimValid => "DiskSim validation: R/W, cache outcome, block, blocks, service us, us to the next",
            Format::HpSrt => "HP SRT 1.x binary",
            Format::HpCsv => "HP SRT records as text",
            Format::Fiu => "FIU: ns, pid, process, sector, sectors, R/W, major, minor, MD5",
            Format::Iolog2 => "fio iolog version 2 (with waits)",
            Format::Iolog3 => "fio iolog version 3 (with times)",
            Format::Columns => "delimited text by --columns",
            Format::Columnar => "our own compressed columns (.dwt)",
        }
    }

    /// Whether [`TraceWriter`](crate::TraceWriter) can write it.
    pub fn writable(self) -> bool {
        !matches!(self, Format::Blktrace | Format::HpSrt)
    }

    /// The layout of delimited text.
    pub(crate) fn layout(self) -> Option<Layout> {
        let comma = |columns| Layout { columns, delimiter: b',', extra: false, decimals: None, header: None };
        let space = |columns, decimals| Layout { columns, delimiter: b' ', extra: false, decimals, header: None };
        // Two formats differ only in the unit of the offset: written files say it.
        let replay_log = |columns| Layout { decimals: Some(3), header: Some(columns), ..comma(columns) };
        Some(match self {
            Format::Msr => comma("time_100ns,host,device,op_word,offset_bytes,size_bytes,latency_100ns"),
            Format::MsrCut => space("time_ms,device,offset_bytes,size_bytes,op_read1", Some(3)),
            Format::Order => comma("op_word,offset_bytes"),
            Format::CloudPhysics => {
                Layout { header: Some("time_us,op,lbn,len_bytes"), ..comma("time_us,op,lbn,len_bytes") }
            }
            Format::Spc => {
                Layout { extra: true, decimals: Some(6), ..comma("device,offset_sectors,size_bytes,op_lower,time_s") }
            }
            Format::Alibaba => comma("device,op,offset_bytes,size_bytes,time_us"),
            Format::Tencent => comma("time_s,offset_sectors,size_sectors,op_write1,device"),
            Format::TencentCut => replay_log("time_ms,latency_us,op_read1,size_bytes,offset_sectors,_,_"),
            Format::Heimdall => replay_log("time_ms,latency_us,op_read1,size_bytes,offset_bytes,_,_"),
            Format::Mqsim => space("time_ns,device,offset_sectors,size_sectors,op_read1", None),
            Format::Disksim => space("time_ms,device,offset_sectors,size_sectors,op_hex", Some(6)),
            Format::DisksimValid => space("op,_,offset_sectors,size_sectors,latency_us,gap_us", Some(6)),
            Format::HpCsv => Layout {
                header: Some("enqueue_us,op,sync,devno_hex,disk,sector256,bytes,start_us,stop_us,qlen"),
                ..comma("time_us,op,sync,_,device,offset_256,size_bytes,wait_us,latency_us,_")
            },
            Format::Fiu => space("time_ns,task,name,offset_sectors,size_sectors,op,major,minor,_", None),
            _ => return None,
        })
    }

    /// Columns of a delimited format.
    pub(crate) fn columns(self) -> Option<Columns> {
        self.layout().map(|l| Columns::parse(l.columns).expect("the layouts are parsed by a test"))
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
            if let Some(layout) = format.layout() {
                Columns::parse(layout.columns).unwrap();
            }
        }
        assert_eq!(Format::parse("LinnOS").unwrap(), Format::MsrCut);
        assert!(Format::parse("pcap").unwrap_err().to_string().contains("blkparse"));
    }
}
