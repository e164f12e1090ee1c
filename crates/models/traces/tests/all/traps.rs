//! Irregularities of real traces, and input that is not a trace.

use std::io::Cursor;

use dumbwaiter_block::{Flags, Op};
use dumbwaiter_traces::{
    Arrival, Columns, Error, Filter, Format, NAMED, Options, Record, StatOptions, TraceReader, TraceStat, open,
    open_reader,
};

fn reader_of(bytes: impl Into<Vec<u8>>, options: &Options) -> Result<TraceReader, Error> {
    open_reader("t", Box::new(Cursor::new(bytes.into())), options)
}

fn read(text: &str, options: &Options) -> (TraceReader, Vec<Record>) {
    let mut reader = reader_of(text, options).unwrap();
    let records = reader.by_ref().map(Result::unwrap).collect();
    (reader, records)
}

fn plain(text: &str) -> (TraceReader, Vec<Record>) {
    read(text, &Options::default())
}

fn count(of: &[dumbwaiter_traces::Skipped], part: &str) -> u64 {
    of.iter().filter(|s| s.reason.contains(part)).map(|s| s.count).sum()
}

/// The error of reading to the end.
fn fails(bytes: impl Into<Vec<u8>>, options: &Options) -> String {
    match reader_of(bytes, options) {
        Err(e) => e.to_string(),
        Ok(reader) => match reader.collect::<Result<Vec<_>, _>>() {
            Err(e) => e.to_string(),
            Ok(records) => panic!("no error, but {} records", records.len()),
        },
    }
}

#[test]
fn times_that_go_backwards_are_raised_and_counted() {
    let text = "10.000 0 0 4096 1\n5.000 0 4096 4096 1\n12.000 0 8192 4096 0\n11.500 0 0 4096 0\n";
    let (reader, records) = plain(text);
    assert_eq!(records.iter().map(|r| r.time.0).collect::<Vec<_>>(), [0, 0, 2_000_000, 2_000_000]);
    assert_eq!(count(&reader.changed(), "before"), 2);
    let sorted = read(text, &Options { sort_window: Some(16), ..Options::default() });
    assert_eq!(sorted.1.iter().map(|r| r.sector).collect::<Vec<_>>(), [8, 0, 0, 16]);
    assert_eq!(sorted.1.last().unwrap().time.0, 7_000_000);
    assert!(sorted.0.changed().is_empty());
}

const BLKPARSE: &str = "\
  8,16   3        4     0.000011950  3645  Q   R 4938888 + 256 [java]
  8,16   3        5     0.000012000  3645  P   N [java]
  8,16   3        5     0.000012100  3645  m   N cfq3645S / alloced
  8,16   3        5     0.000026421  3645  D   R 4938888 + 256 [java]
  8,16   3        6     0.000100000  3645  U   N [java] 1
  8,16   3        7     0.001795683  3557  C   R 4938888 + 256 [0]
  8,16   0        1     0.002000000   100  Q  WS 8 + 16 [kworker/u8:0 [x] (y)]
  8,16   0        2     0.003000000   101  Q FWFSM 64 + 8 [(null)]
  8,16   0        3     0.003000000   101  Q  FN [jbd2/sdb-8]
  8,16   0        3     0.003500000   101  Q   D 4096 + 2048 [fstrim]
  8,16   0        4     0.004000000   101  Q   R 36 (12 01 00 00 24 00 ..) [smartd]
  8,16   0        5     0.004000000   101  Q   W 100 + 0 [x]
  8,16   1        4 1266874889.708658509  3646  Q   R 5632664 + 256 [java]
  8,16   1        6 1266874889.708668759  3646  D   R 5632664 + 256 [java]
CPU0 (8,16):
 Reads Queued:           1,        4KiB\t Writes Queued:           0,        0KiB
Total (8,16):
 Reads Queued:           1,        4KiB\t Writes Queued:           0,        0KiB

Throughput (R/W): 1,234KiB/s / 0KiB/s
Events (8,16): 14 entries
Skips: 0 forward (0 -   0.0%)";

#[test]
fn blkparse_lines_of_every_kind_parse() {
    for text in [BLKPARSE.to_string(), BLKPARSE.replace('\n', "\r\n"), format!("{BLKPARSE}\n\0\0\0\0")] {
        let (reader, records) = plain(&text);
        assert_eq!(reader.format(), Format::Blkparse);
        let ops: Vec<(Op, u64, u32)> = records.iter().map(|r| (r.op, r.sector, r.sectors)).collect();
        let want = [
            (Op::Read, 5_632_664, 256),
            (Op::Read, 4_938_888, 256),
            (Op::Write, 8, 16),
            (Op::Write, 64, 8),
            (Op::Flush, 0, 0),
            (Op::Discard, 4096, 2048),
        ];
        assert_eq!(ops, want);
        // 893,107 ns before zero, and 11,950 ns after it.
        assert_eq!(records[1].time.0, 893_107 + 11_950);
        assert_eq!(records[0].wait.unwrap().0, 10_250);
        assert_eq!(records[1].latency.unwrap().0, 1_795_683 - 11_950);
        assert_eq!(records[3].flags, Flags::PREFLUSH.with(Flags::FUA).with(Flags::SYNC).with(Flags::META));
        assert_eq!((records[2].task, records[2].device), (100, 8 << 20 | 16));
        let skipped = reader.skipped();
        assert_eq!(count(&skipped, "no sector") + count(&skipped, "zero length"), 2, "{skipped:?}");
        assert_eq!(skipped.iter().map(|s| s.count).sum::<u64>(), 2, "{skipped:?}");
    }
}

#[test]
fn wrapped_times_come_first_from_anywhere_in_the_file() {
    let mut text = String::new();
    for i in 0..200_000u64 {
        let (s, ns) = (i / 1000, i % 1000 * 1_000_000);
        text += &format!("  8,0    0 {i:8} {s:5}.{ns:09}   77  Q   R {} + 8 [x]\n", i * 8);
    }
    text += "  8,0    1        1 1266874889.709451616   78  Q   W 4 + 8 [x]\n";
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("late.txt");
    std::fs::write(&path, &text).unwrap();
    let mut reader = open(&[&path], &Options::default()).unwrap();
    let first = reader.next_record().unwrap().unwrap();
    assert_eq!((first.op, first.task), (Op::Write, 78));
    assert_eq!(reader.next_record().unwrap().unwrap().time.0, 100_000);
    assert_eq!(2 + reader.by_ref().count(), 200_001);
    assert!(reader.changed().is_empty());
    // From a pipe, such times are clamped and counted instead.
    let (reader, records) = plain(&text);
    assert_eq!(records.len(), 200_001);
    assert_eq!(count(&reader.changed(), "before"), 1);
}

#[test]
fn the_arrival_event_is_chosen_and_can_be_chosen() {
    let (reader, _) = plain(BLKPARSE);
    assert!(reader.notes().iter().any(|n| n.contains("Q events")), "{:?}", reader.notes());
    let (_, records) = read(BLKPARSE, &Options { arrival: Some(Arrival::Issue), ..Options::default() });
    assert_eq!(records.len(), 2);
    assert_eq!(records[1].latency.unwrap().0, 1_795_683 - 26_421);
    let inserts = BLKPARSE.replace("  Q ", "  I ");
    assert!(plain(&inserts).0.notes().iter().any(|n| n.contains("I events")));
}

#[test]
fn similar_formats_are_distinguished_and_named() {
    for (text, format, other) in [
        ("0.000 0 11562803200 4096 1\n0.001 0 512 1024 0\n", Format::MsrCut, Some("disksim")),
        ("938513000 4 264719034 16 0\n938828000 3 197570570 16 0\n", Format::Mqsim, Some("disksim")),
        ("13.191135\t30\t0\t5\t1\n17.829285\t20\t576560\t6\t1\n", Format::Disksim, Some("msr-cut")),
        (
            "0.000,134,1,4096,42242048,0.100,4096\n1000.000,134,1,4096,4096,0.100,4096\n",
            Format::TencentCut,
            Some("heimdall"),
        ),
        ("0.120,134,1,4096,42242560,0.100,4096\n", Format::Heimdall, Some("tencent-cut")),
        ("419,W,8792731648,16384,1577808144360767\n725,R,59110326272,360448,1577808144360813\n", Format::Alibaba, None),
        ("1538323200,12910952,128,0,1063\n1538323200,6338688,8,1,1627\n", Format::Tencent, None),
        ("128166372003061629,hm,1,Read,383496192,32768,413\n", Format::Msr, None),
        ("0,303567,3584,w,0.000000\n1,55590,3072,W,0.000000,extra", Format::Spc, None),
        ("5633898368802,W,42932745,512\n5633898611441,R,42932746,512", Format::CloudPhysics, None),
        ("Write,3213955072\nRead,3154137088\n", Format::Order, None),
        ("W Hit   11392096  12   1686.00000  40961.00000\n", Format::DisksimValid, None),
        ("89966522969723 4270 rpc.mountd 18579576 8 W 6 0 d6c75ba46e82326fefa545b57a12e221\n", Format::Fiu, None),
        ("fio version 2 iolog\n/dev/a add\n/dev/a open\n/dev/a read 0 4096\n", Format::Iolog2, None),
        ("fio version 3 iolog\n5 /dev/a add\n7 /dev/a write 0 4096\n", Format::Iolog3, None),
        ("time_us;op;offset_bytes;size_bytes;junk\n1;R;0;512;x\n", Format::Columns, None),
    ] {
        let (reader, records) = plain(text);
        assert_eq!(reader.format(), format, "{text}");
        assert!(!records.is_empty());
        let named =
            reader.notes().iter().any(|n| other.is_some_and(|o| n.contains(&format!("--format {o}")) || n.contains(o)));
        assert_eq!(named, other.is_some(), "{format}: {:?}", reader.notes());
    }
}

#[test]
fn a_format_option_overrides_detection() {
    let text = "0.000 0 4096 4096 1\n1.000 0 512 1024 0\n";
    let (_, records) = read(text, &Options { format: Some(Format::Disksim), ..Options::default() });
    assert_eq!((records[0].sector, records[0].sectors), (4096, 4096));
}

#[test]
fn units_follow_the_formats() {
    let one = |text: &str| plain(text).1[0];
    let r = one("128166372003061629,hm,1,Read,383496192,32768,413\n");
    assert_eq!((r.sector, r.sectors, r.latency.unwrap().0), (383_496_192 / 512, 64, 41_300));
    assert_eq!(r.device, NAMED);
    let r = one("1538323200,12910952,128,0,1063\n1538323200,6338688,8,1,1627\n");
    assert_eq!((r.op, r.sector, r.sectors, r.device), (Op::Read, 12_910_952, 128, 1063));
    let r = one("W Hit   11392096  12   1686.00000  40961.00000\nR Hit 0 8 1.0 2.0\n");
    assert_eq!((r.op, r.sector, r.sectors, r.latency.unwrap().0), (Op::Write, 11_392_096, 12, 1_686_000));
    let (_, both) = plain("W Hit   11392096  12   1686.00000  40961.00000\nR Hit 0 8 1.0 2.0\n");
    assert_eq!(both[1].time.0, 40_961_000);
    let (_, both) =
        plain("fio version 2 iolog\na add\na read 0 4096\na wait 250\na write 1024 512\nb trim 0 1024\na sync 0 0\n");
    assert_eq!(both[1].time.0, 250_000);
    assert_eq!(both.iter().map(|r| r.op).collect::<Vec<_>>(), [Op::Read, Op::Write, Op::Discard, Op::Flush]);
    assert_ne!(both[2].device, both[1].device);
    let columns = Columns::parse("time_100ns,op,offset_4k,size_kib,wait_us,latency_ms,pid,device").unwrap();
    let (_, records) =
        read("70|trim|3|8|1.5|2|firefox|vda\n", &Options { columns: Some(columns), ..Options::default() });
    let r = records[0];
    assert_eq!((r.op, r.sector, r.sectors), (Op::Discard, 24, 16));
    assert_eq!((r.wait.unwrap().0, r.latency.unwrap().0), (1500, 2_000_000));
    assert_eq!((r.task, r.device), (NAMED, NAMED));
}

#[test]
fn process_names_may_have_spaces() {
    let text = "1000 10 Web Content 8 8 R 6 0 d6c75ba46e82326fefa545b57a12e221\n1001 11 x 16 8 W 6 0 d6c75ba46e82326fefa545b57a12e221\n";
    let (reader, records) = plain(text);
    assert_eq!(reader.format(), Format::Fiu);
    assert_eq!(records.iter().map(|r| (r.task, r.sector)).collect::<Vec<_>>(), [(10, 8), (11, 16)]);
}

#[test]
fn unusable_records_are_counted() {
    let text =
        "1,R,0,0\n2,W,1,1000\n3,R,18446744073709551615,512\n4,r,9,4096\n5,Q,1,512\n6,W,0,99999999999999\n\n7,w,8,512";
    let (reader, records) = plain(text);
    assert_eq!(records.iter().map(|r| r.sectors).collect::<Vec<_>>(), [2, 8, 1]);
    let skipped = reader.skipped();
    assert_eq!(count(&skipped, "zero length"), 1);
    assert_eq!(count(&skipped, "does not parse"), 1, "{skipped:?}");
    assert_eq!(count(&skipped, "over 64 bits"), 1, "{skipped:?}");
    assert_eq!(count(&skipped, "1 GiB"), 1);
    assert_eq!(count(&reader.changed(), "whole 512-byte sectors"), 1);
}

#[test]
fn equal_times_keep_the_order_of_the_file() {
    let text: String = (0..1000).map(|i| format!("0.000 0 {} 512 1\n", (i * 7919 % 1000) * 512)).collect();
    for sort_window in [0, 64] {
        let (_, records) = read(&text, &Options { sort_window: Some(sort_window), ..Options::default() });
        let got: Vec<u64> = records.iter().map(|r| r.sector).collect();
        assert_eq!(got, (0..1000).map(|i| i * 7919 % 1000).collect::<Vec<u64>>());
    }
}

#[test]
fn several_files_are_merged_by_time() {
    let folder = tempfile::tempdir().unwrap();
    let (a, b) = (folder.path().join("a"), folder.path().join("b"));
    std::fs::write(&a, "1.000 0 0 512 1\n3.000 0 512 512 1\n3.000 0 1024 512 1\n").unwrap();
    std::fs::write(&b, "2.000 1 0 512 1\n3.000 1 512 512 1\n").unwrap();
    let records: Vec<Record> = open(&[&a, &b], &Options::default()).unwrap().map(Result::unwrap).collect();
    let got: Vec<(u32, u64)> = records.iter().map(|r| (r.device, r.sector)).collect();
    assert_eq!(got, [(0, 0), (1, 0), (0, 1), (0, 2), (1, 1)]);
    std::fs::write(&b, "Read,0\nWrite,4096\n").unwrap();
    let error = open(&[&a, &b], &Options::default()).err().unwrap().to_string();
    assert!(error.contains("order") && error.contains("msr-cut"), "{error}");
}

#[test]
fn a_trace_without_sizes_uses_the_assumed_size() {
    let (reader, records) = read("Read,8192\nWrite,0\n", &Options { assume_bytes: Some(8192), ..Options::default() });
    assert_eq!(records[0].sectors, 16);
    assert_eq!(reader.missing(), ["time", "size"]);
    assert!(reader.notes().iter().any(|n| n.contains("8192")));
}

#[test]
fn input_that_is_not_a_trace_is_an_error_with_place_and_reason() {
    let auto = Options::default();
    let named = |format| Options { format: Some(format), ..Options::default() };
    let good = "128166372003061629,hm,1,Read,383496192,32768,413\n";
    let mut binary = vec![0u8; 5000];
    binary.iter_mut().enumerate().for_each(|(i, b)| *b = ((i * 2_654_435_761) >> 7) as u8);
    let half_bad = good.to_string() + &"rubbish, all of it\n".repeat(3);
    for (bytes, options, parts) in [
        (Vec::new(), &auto, vec!["t:", "empty"]),
        (binary.clone(), &auto, vec!["t:", "no known trace format", "--format"]),
        (b"hello world\nthis is a text\n".to_vec(), &auto, vec!["hello world", "--columns"]),
        (b"\0\0\0\0\0\0".to_vec(), &auto, vec!["no known trace format"]),
        (half_bad.into_bytes(), &named(Format::Msr), vec!["3 of 4 lines", "line 2", "rubbish"]),
        (b"0.5 0 0 512 1\n".to_vec(), &named(Format::Msr), vec!["line 1", "7 fields"]),
        (binary.clone(), &named(Format::Vscsi), vec!["vscsi"]),
        (binary.clone(), &named(Format::Columnar), vec!["DWTRACE1"]),
        (binary.clone(), &named(Format::HpSrt), vec!["$$TR_IOREC"]),
        (binary.clone(), &named(Format::Blktrace), vec!["byte 0", "0x65617407"]),
        (b"op,offset_bytes\nR,0".to_vec(), &named(Format::Columns), vec![]),
        (b"1,R,0,0\n".to_vec(), &named(Format::CloudPhysics), vec!["no request", "zero length"]),
        ([&[0x1f, 0x8b, 8, 0][..], &binary].concat(), &auto, vec!["t:", "read"]),
        ([&[0x28, 0xb5, 0x2f, 0xfd][..], &binary].concat(), &auto, vec!["t:", "read"]),
        (
            b"\xff\xfe\xfd,R,\xc3\x28,512\n".repeat(10),
            &named(Format::CloudPhysics),
            vec!["10 of 10", "line 1", "a time"],
        ),
    ] {
        if parts.is_empty() {
            continue;
        }
        let error = fails(bytes, options);
        for part in parts {
            assert!(error.contains(part), "{part:?} is not in {error}");
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let missing = open(&[folder.path().join("nothing")], &auto).err().unwrap().to_string();
    assert!(missing.contains("nothing: cannot open"), "{missing}");
    let directory = open(&[folder.path()], &auto).err().unwrap().to_string();
    assert!(directory.contains("a directory"), "{directory}");
}

#[test]
fn truncated_binaries_are_errors() {
    let mut vscsi = Vec::new();
    for i in 0..3u32 {
        vscsi.extend([i.to_le_bytes(), 4096u32.to_le_bytes(), 1u32.to_le_bytes()].concat());
        vscsi.extend([0x28, 0, 0, 1]);
        vscsi.extend([u64::from(i).to_le_bytes(), 1000u64.to_le_bytes()].concat());
    }
    assert_eq!(reader_of(vscsi.clone(), &Options::default()).unwrap().count(), 3);
    vscsi.truncate(90);
    let error = fails(vscsi, &Options::default());
    assert!(error.contains("vscsi record") && error.contains("after 2 records"), "{error}");
    let mut blktrace = Vec::new();
    for big in [false, true] {
        blktrace.clear();
        let four = |n: u32| if big { n.to_be_bytes() } else { n.to_le_bytes() };
        let eight = |n: u64| if big { n.to_be_bytes() } else { n.to_le_bytes() };
        for i in 0..2u64 {
            blktrace.extend([four(0x6561_7407), four(i as u32)].concat());
            blktrace.extend([eight(1000 * i), eight(64 * i)].concat());
            // Q of a synchronous write of 8 sectors by 77 on 8,16.
            for n in [4096, 1 | 1 << 17 | 1 << 19, 77, 8 << 20 | 16, 0, 0] {
                blktrace.extend(four(n));
            }
        }
        let records: Vec<_> = reader_of(blktrace.clone(), &Options::default()).unwrap().map(Result::unwrap).collect();
        assert_eq!(records.len(), 2);
        let r = records[1];
        assert_eq!((r.op, r.flags, r.task, r.time.0, r.sector, r.sectors), (Op::Write, Flags::SYNC, 77, 1000, 64, 8));
    }
    blktrace.truncate(60);
    assert!(fails(blktrace, &Options::default()).contains("inside a blktrace record"));
}

#[test]
fn hp_records_with_and_without_a_header() {
    let mut record = Vec::new();
    // Enqueued at 2.000003 s, started 10 µs and stopped 500 µs later, 4096 bytes at 256-byte sector 6.
    for word in [56u32, 0x0004_0001, 2, 3, 10, 500, 4096, 6, 0x0800_0107, 0, 0, 0x101, 0, 1] {
        record.extend(word.to_be_bytes());
    }
    let whole = [b"$$TR_IOREC-1.3 (x)\0\nversion = 1.3;\n\x0c".to_vec(), record.clone(), record.clone()].concat();
    for bytes in [whole.clone(), record.repeat(2)] {
        let mut reader = reader_of(bytes, &Options::default()).unwrap();
        assert_eq!(reader.format(), Format::HpSrt);
        let r = reader.next_record().unwrap().unwrap();
        assert_eq!((r.op, r.sector, r.sectors, r.device, r.flags), (Op::Read, 3, 8, 1, Flags::NONE));
        assert_eq!((r.wait.unwrap().0, r.latency.unwrap().0), (10_000, 500_000));
        assert_eq!(reader.count(), 1);
    }
    assert!(
        fails(&whole[..whole.len() - 1], &Options::default()).contains("inside an SRT record (truncated?) after 1")
    );
}

#[test]
fn impossible_options_are_refused() {
    let columns = Columns::parse("op,offset_bytes").unwrap();
    let both = Options { format: Some(Format::Msr), columns: Some(columns), ..Options::default() };
    assert!(fails("R,0\n", &both).contains("columns"));
    assert!(open::<&str>(&[], &Options::default()).is_err());
    let alone = Options { format: Some(Format::Columns), ..Options::default() };
    assert!(fails("1,2,3\n", &alone).contains("--columns"));
}

#[test]
fn requests_of_huge_size_and_offset_are_counted_completely() {
    let columns = Columns::parse("time_s,op,offset_sectors,size_sectors").unwrap();
    let text = "0,R,36028797018963900,8\n1,W,0,2097152\n2,D,36028797018963968,8\n";
    let mut reader = reader_of(text, &Options { columns: Some(columns), ..Options::default() }).unwrap();
    let stat = TraceStat::of(&mut reader, &StatOptions { footprint_block: 1 << 20, ..StatOptions::default() }).unwrap();
    assert_eq!((stat.reads, stat.writes, stat.others), (1, 1, 0));
    assert_eq!(stat.bytes, Some((1 << 30) + 4096));
    assert_eq!(count(&stat.skipped, "does not parse"), 1);
}

#[test]
fn requests_of_more_than_a_gibibyte_are_skipped_and_counted() {
    let columns = Columns::parse("time_s,op,offset_sectors,size_sectors").unwrap();
    let text = "0,R,0,2097153\n1,W,0,4294967295\n2,W,0,99999999999\n3,R,0,2097152\n";
    let (reader, records) = read(text, &Options { columns: Some(columns), ..Options::default() });
    assert_eq!(records.len(), 1);
    assert_eq!(count(&reader.skipped(), "longer than 1 GiB"), 3);
}

#[test]
fn a_header_without_units_is_an_error_that_proposes_columns() {
    let text = "timestamp,type,offset,size\n1000,R,4096,4096\n2000,W,8192,512\n";
    let said = fails(text, &Options::default());
    assert!(said.contains("timestamp, offset, size"), "{said}");
    let list = said.split("--columns ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap();
    let (_, records) = read(text, &Options { columns: Some(Columns::parse(list).unwrap()), ..Options::default() });
    assert_eq!((records.len(), records[0].sector, records[1].time.0), (2, 8, 1_000_000));
    // So is a comment of names in front of the data.
    assert!(fails(format!("# {text}"), &Options::default()).contains("--columns"));
}

#[test]
fn a_reader_never_opens_a_file_named_like_its_messages() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t");
    let early = "8,0 0 1 1266874889.700000000 1 Q R 8 + 8 [x]\n";
    std::fs::write(&path, format!("8,0 0 1 0.1 1 Q R 0 + 8 [x]\n{early}")).unwrap();
    let text = "8,0 0 1 0.000000001 1 Q R 64 + 8 [y]\n";
    let reader = open_reader(path.to_str().unwrap(), Box::new(Cursor::new(text)), &Options::default()).unwrap();
    let sectors: Vec<u64> = reader.map(|r| r.unwrap().sector).collect();
    assert_eq!(sectors, [64]);
}

#[test]
fn wrapped_times_with_leading_zeros_are_kept() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let lines = ["0.1 1 Q R 0 + 8", "1266874889.600000000 1 Q R 8 + 8", "01266874889.700000000 1 Q R 16 + 8"];
    let text: String = lines.iter().map(|l| format!("8,0 0 1 {l} [x]\n")).collect();
    std::fs::write(file.path(), text).unwrap();
    let sectors: Vec<u64> = open(&[file.path()], &Options::default()).unwrap().map(|r| r.unwrap().sector).collect();
    assert_eq!(sectors, [8, 16, 0]);
}

#[test]
fn a_written_replay_log_is_found_in_its_own_unit() {
    let folder = tempfile::tempdir().unwrap();
    for format in [Format::TencentCut, Format::Heimdall] {
        let path = folder.path().join(format.name());
        let mut reader =
            reader_of("time_ms,op,offset_sectors,size_sectors\n1,R,17,8\n1001,W,4096,8\n", &Options::default())
                .unwrap();
        dumbwaiter_traces::convert(&mut reader, &path, format, None, &Filter::default(), &|| false).unwrap();
        let reader = open(&[&path], &Options::default()).unwrap();
        assert_eq!(reader.format(), format);
        assert_eq!(reader.map(|r| r.unwrap().sector).collect::<Vec<_>>(), [17, 4096]);
    }
}
