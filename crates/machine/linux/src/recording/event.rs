//! One event of the kernel's trace, as its `format` file lays it out.

use std::collections::BTreeMap;

/// The kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Bio,
    Allocated,
    Insert,
    Issue,
    Complete,
    Merge,
    Requeue,
    BackMerge,
    FrontMerge,
    Plug,
    Unplug,
    Split,
    KyberAdjust,
    KyberThrottled,
    /// A probe: the dispatch function returned.
    Dispatch,
    /// A probe inside it: the request was chosen.
    Choice,
    /// A probe: BFQ ended a queue's service.
    BfqExpire,
    /// What a controller before the scheduler saw or decided: its place among the [`POINTS`](super::controllers::POINTS).
    Controller(u8),
}

impl Kind {
    /// The tracepoints that are recorded, by system and name, and the name of their rows.
    pub(crate) const POINTS: [(Kind, &str, &str, &str); 14] = [
        (Kind::Bio, "block", "block_bio_queue", "bio_queue"),
        (Kind::Allocated, "block", "block_getrq", "getrq"),
        (Kind::Insert, "block", "block_rq_insert", "rq_insert"),
        (Kind::Issue, "block", "block_rq_issue", "rq_issue"),
        (Kind::Complete, "block", "block_rq_complete", "rq_complete"),
        (Kind::Merge, "block", "block_rq_merge", "rq_merge"),
        (Kind::Requeue, "block", "block_rq_requeue", "rq_requeue"),
        (Kind::BackMerge, "block", "block_bio_backmerge", "bio_backmerge"),
        (Kind::FrontMerge, "block", "block_bio_frontmerge", "bio_frontmerge"),
        (Kind::Plug, "block", "block_plug", "plug"),
        (Kind::Unplug, "block", "block_unplug", "unplug"),
        (Kind::Split, "block", "block_split", "split"),
        (Kind::KyberAdjust, "kyber", "kyber_adjust", "kyber_adjust"),
        (Kind::KyberThrottled, "kyber", "kyber_throttled", "kyber_throttled"),
    ];

    /// Name of the rows.
    pub(crate) fn row(self) -> &'static str {
        let point = Kind::POINTS.iter().find(|(kind, ..)| *kind == self).map(|(.., row)| *row);
        match self {
            Kind::Dispatch => "dispatch",
            Kind::BfqExpire => "bfq_expire",
            _ => point.unwrap_or("choice"),
        }
    }

    /// Does the tracepoint name its device?
    pub(crate) fn has_device(self) -> bool {
        use Kind::{BfqExpire, Choice, Controller, Dispatch, Plug, Unplug};
        !matches!(self, Plug | Unplug | Dispatch | Choice | BfqExpire | Controller(_))
    }
}

/// One event. A field that its kind does not have is 0.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Event {
    /// Nanoseconds of CLOCK_MONOTONIC.
    pub(crate) at: u64,
    pub(crate) kind: Kind,
    pub(crate) cpu: u16,
    /// The process running when it occurred.
    pub(crate) pid: i32,
    pub(crate) dev: u32,
    pub(crate) sector: u64,
    /// In bytes.
    pub(crate) bytes: u64,
    pub(crate) ioprio: u16,
    /// The kernel's letters for operation and flags, ended by a 0.
    pub(crate) rwbs: [u8; 16],
    pub(crate) comm: [u8; 16],
    /// Requests of an unplug; depth of kyber_adjust; error of a completion.
    pub(crate) number: i64,
    /// Address of a request, of probes.
    pub(crate) rq: u64,
    pub(crate) opf: u64,
    pub(crate) jiffies: u64,
    /// Of BFQ's expiry: reason, service, budget, weight, raising.
    pub(crate) expiry: [i64; 5],
}

/// Text up to the first 0.
pub(crate) fn text(bytes: &[u8]) -> &str {
    let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
    std::str::from_utf8(&bytes[..end]).unwrap_or("?")
}

#[derive(Clone, Copy, Debug)]
struct Field {
    offset: usize,
    size: usize,
    signed: bool,
    /// The record has the text elsewhere: here are its place and length.
    elsewhere: bool,
}

/// The layout of one kind of event.
#[derive(Clone, Debug)]
pub(crate) struct Format {
    pub(crate) kind: Kind,
    pub(crate) id: u16,
    fields: BTreeMap<String, Field>,
}

impl Format {
    /// Reads a `format` file of tracefs.
    pub(crate) fn parse(kind: Kind, text: &str) -> Option<Format> {
        let id = text.lines().find_map(|l| l.strip_prefix("ID: "))?.trim().parse().ok()?;
        let mut fields = BTreeMap::new();
        for line in text.lines() {
            // field:char rwbs[10];	offset:28;	size:10;	signed:0;
            let Some(rest) = line.trim().strip_prefix("field:") else { continue };
            let mut parts = rest.split(';').map(str::trim);
            let declared = parts.next()?.split_whitespace().next_back()?;
            let name = declared.split('[').next()?.to_owned();
            let mut number = |label: &str| -> Option<usize> { parts.next()?.strip_prefix(label)?.parse().ok() };
            let (offset, size) = (number("offset:")?, number("size:")?);
            let elsewhere = rest.starts_with("__data_loc");
            fields.insert(name, Field { offset, size, signed: number("signed:")? == 1, elsewhere });
        }
        Some(Format { kind, id, fields })
    }

    /// Offset and size of a field in the records.
    pub(crate) fn place(&self, name: &str) -> Option<(usize, usize)> {
        self.fields.get(name).map(|field| (field.offset, field.size))
    }

    fn bytes<'a>(&self, name: &str, data: &'a [u8]) -> Option<&'a [u8]> {
        let field = self.fields.get(name)?;
        data.get(field.offset..field.offset + field.size)
    }

    /// A number of a record; `None` where it has none of this name.
    pub(crate) fn number(&self, name: &str, data: &[u8]) -> Option<i64> {
        let bytes = self.bytes(name, data).filter(|bytes| !bytes.is_empty() && bytes.len() <= 8)?;
        let negative = self.fields.get(name)?.signed && bytes[bytes.len() - 1] & 0x80 != 0;
        let mut wide = [if negative { 0xff } else { 0 }; 8];
        wide[..bytes.len()].copy_from_slice(bytes);
        Some(i64::from_le_bytes(wide))
    }

    /// A text of a record, up to its first 0; empty where it has none of this name.
    pub(crate) fn text<'a>(&self, name: &str, data: &'a [u8]) -> &'a str {
        let elsewhere = self.fields.get(name).is_some_and(|field| field.elsewhere);
        let bytes = match self.number(name, data).filter(|_| elsewhere) {
            Some(place) => {
                let (at, length) = (place as usize & 0xffff, place as usize >> 16 & 0xffff);
                data.get(at..at + length)
            }
            None => self.bytes(name, data),
        };
        text(bytes.unwrap_or_default())
    }

    /// Takes an event from the bytes of its record.
    pub(crate) fn event(&self, at: u64, cpu: u16, data: &[u8]) -> Event {
        let signed = |name: &str| self.number(name, data).unwrap_or(0);
        let number = |name: &str| signed(name) as u64;
        let letters = |name: &str| -> [u8; 16] {
            let mut all = [0; 16];
            if let Some(bytes) = self.bytes(name, data) {
                let n = bytes.len().min(15);
                all[..n].copy_from_slice(&bytes[..n]);
            }
            all
        };
        let bytes = if self.fields.contains_key("nr_sector") {
            number("nr_sector") * dumbwaiter_block::SECTOR_BYTES
        } else {
            number("bytes")
        };
        Event {
            at,
            kind: self.kind,
            cpu,
            pid: if self.kind == Kind::BfqExpire { signed("owner") } else { signed("common_pid") } as i32,
            dev: number("dev") as u32,
            sector: number("sector"),
            bytes,
            ioprio: number("ioprio") as u16,
            rwbs: if self.kind == Kind::KyberAdjust || self.kind == Kind::KyberThrottled {
                letters("domain")
            } else {
                letters("rwbs")
            },
            comm: letters("comm"),
            number: match self.kind {
                Kind::Unplug => signed("nr_rq"),
                Kind::KyberAdjust => signed("depth"),
                _ => signed("error"),
            },
            rq: number("rq"),
            opf: number("opf"),
            jiffies: number("jiffies"),
            expiry: ["reason", "service", "budget", "weight", "wr"].map(signed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layout_decides_where_a_value_is() {
        let text = "name: block_rq_complete\nID: 1234\nformat:\n\
                    \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
                    \tfield:dev_t dev;\toffset:8;\tsize:4;\tsigned:0;\n\
                    \tfield:sector_t sector;\toffset:16;\tsize:8;\tsigned:0;\n\
                    \tfield:unsigned int nr_sector;\toffset:24;\tsize:4;\tsigned:0;\n\
                    \tfield:int error;\toffset:28;\tsize:4;\tsigned:1;\n\
                    \tfield:char rwbs[8];\toffset:32;\tsize:8;\tsigned:0;\n\nprint fmt: \"%d\", REC->dev\n";
        let format = Format::parse(Kind::Complete, text).unwrap();
        assert_eq!(format.id, 1234);
        let mut data = vec![0u8; 40];
        data[4..8].copy_from_slice(&(-1i32).to_le_bytes());
        data[8..12].copy_from_slice(&(7u32 << 20 | 3).to_le_bytes());
        data[16..24].copy_from_slice(&99u64.to_le_bytes());
        data[24..28].copy_from_slice(&8u32.to_le_bytes());
        data[28..32].copy_from_slice(&(-5i32).to_le_bytes());
        data[32..35].copy_from_slice(b"WS\0");
        let event = format.event(5, 1, &data);
        assert_eq!((event.pid, event.dev, event.sector, event.bytes), (-1, 7 << 20 | 3, 99, 4096));
        assert_eq!((event.number, super::text(&event.rwbs)), (-5, "WS"));
        assert_eq!((format.number("error", &data), format.text("rwbs", &data)), (Some(-5), "WS"));
        // A text may be elsewhere in the record: length and place are in its field.
        let text = "ID: 7\n\tfield:__data_loc char[] devname;\toffset:8;\tsize:4;\tsigned:0;\n";
        let named = Format::parse(Kind::Controller(0), text).unwrap();
        let mut record = vec![0u8; 12];
        record[8..12].copy_from_slice(&(4u32 << 16 | 12).to_le_bytes());
        assert_eq!(named.text("devname", &record), "", "cut off");
        record.extend_from_slice(b"sda\0");
        assert_eq!(named.text("devname", &record), "sda");
        // A record that is cut off has no values, and is no accident.
        assert_eq!(format.event(5, 1, &data[..20]).sector, 0);
        assert!(Format::parse(Kind::Complete, "format:\n").is_none());
    }
}
