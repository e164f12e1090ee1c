//! Written records are read back as far as the format can express them.

use dumbwaiter_block::{Flags, IoTag, Nanos, Op};
use dumbwaiter_traces::{Columns, Filter, Format, Known, Options, Record, TraceWriter, Written, convert, open};
use proptest::prelude::*;

const ALL: Known = Known { times: true, sizes: true, devices: true, tasks: true };

fn write(path: &std::path::Path, format: Format, columns: Option<&Columns>, records: &[Record]) -> Written {
    let mut writer = TraceWriter::create(path, format, columns, ALL).unwrap();
    records.iter().for_each(|r| writer.write(r).unwrap());
    writer.finish().unwrap()
}

fn read(path: &std::path::Path, options: &Options) -> Vec<Record> {
    open(&[path], options).unwrap().map(Result::unwrap).collect()
}

/// Records in order of time from 0 on, in whole microseconds.
fn records(ops: &'static [Op]) -> impl Strategy<Value = Vec<Record>> {
    let one = (
        prop::sample::select(ops),
        0u64..2_000_000,
        0u64..1 << 40,
        1u32..5000,
        0u32..4,
        (1u32..400, prop::option::of(0u64..5_000_000), prop::option::of(0u64..50_000), any::<u8>()),
    );
    prop::collection::vec(one, 1..60).prop_map(|all| {
        let mut now = 0;
        let mut out = Vec::new();
        for (i, (op, gap, sector, sectors, device, (task, latency, wait, marks))) in all.into_iter().enumerate() {
            now += if i == 0 { 0 } else { gap * 1000 };
            let mut r = Record::new(op, sector, sectors);
            (r.time, r.device, r.task) = (Nanos(now), device, task);
            r.latency = latency.map(|us| Nanos((us + 50_001) * 1000));
            r.wait = wait.map(|us| Nanos(us * 1000));
            let all = [Flags::SYNC, Flags::META, Flags::RAHEAD, Flags::FUA, Flags::PREFLUSH];
            for (i, flag) in all.into_iter().enumerate() {
                if marks >> i & 1 == 1 {
                    r.flags = r.flags.with(flag);
                }
            }
            r.tag = IoTag::from_code(marks >> 3);
            if op == Op::Flush {
                (r.sector, r.sectors, r.latency, r.wait) = (0, 0, None, None);
                r.flags = r.flags.without(Flags::PREFLUSH);
            }
            out.push(r);
        }
        out
    })
}

const DATA: &[Op] = &[Op::Read, Op::Write];
const EVERY: &[Op] = &[Op::Read, Op::Write, Op::Flush, Op::Discard, Op::SecureErase, Op::WriteZeroes];

/// The part of a record that a format can express.
fn kept(format: Format, r: &Record, several: bool) -> Record {
    let mut k = Record { flags: Flags::NONE, wait: None, latency: None, task: 0, tag: None, ..*r };
    let unit = match format {
        Format::Tencent => 1_000_000_000,
        _ => 1,
    };
    k.time.0 -= k.time.0 % unit;
    match format {
        Format::Columnar => return *r,
        Format::Blkparse => {
            (k.flags, k.task, k.wait, k.latency) = (r.flags, r.task, r.wait, r.latency);
        }
        Format::Fiu => k.task = r.task,
        Format::Msr | Format::Systor | Format::TencentCut | Format::Heimdall | Format::DisksimValid => {
            k.latency = r.latency
        }
        Format::HpCsv => {
            (k.wait, k.latency) = (r.wait, r.latency);
            k.flags = if r.flags.has(Flags::SYNC) { Flags::SYNC } else { Flags::NONE };
        }
        // Version 2, with latencies, is used if the first record has one.
        Format::Vscsi if several => k.latency = r.latency,
        _ => {}
    }
    let numbered = !matches!(
        format,
        Format::CloudPhysics | Format::Vscsi | Format::TencentCut | Format::Heimdall | Format::DisksimValid
    );
    if !numbered {
        k.device = 0;
    }
    k
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn every_format_preserves_what_it_can_express(records in records(DATA)) {
        let folder = tempfile::tempdir().unwrap();
        for format in Format::ALL.into_iter().filter(|f| f.writable() && !matches!(f, Format::Columns | Format::Order)) {
            let path = folder.path().join(format!("trace.{}", format.name()));
            let written = write(&path, format, None, &records);
            prop_assert_eq!(written.records, records.len() as u64);
            let named = Options { format: Some(format), ..Options::default() };
            let mut got = read(&path, &named);
            let mut want: Vec<Record> = records.iter().map(|r| kept(format, r, records[0].latency.is_some())).collect();
            if matches!(format, Format::Msr | Format::Iolog2 | Format::Iolog3) {
                // Devices are read back as names.
                let mut seen = Vec::new();
                for r in &mut want {
                    let at = seen.iter().position(|d| *d == r.device).unwrap_or_else(|| { seen.push(r.device); seen.len() - 1 });
                    r.device = dumbwaiter_traces::NAMED + at as u32;
                }
            }
            if format == Format::Blkparse {
                // Overlapping requests of one sector can swap their measured times.
                for r in got.iter_mut().chain(&mut want) {
                    (r.wait, r.latency) = (None, None);
                }
            }
            prop_assert_eq!(&got, &want, "{}", format);
        }
    }

    #[test]
    fn columnar_and_blkparse_preserve_every_operation(records in records(EVERY), pack in 0usize..3) {
        let folder = tempfile::tempdir().unwrap();
        let ending = ["", ".gz", ".zst"][pack];
        for format in [Format::Columnar, Format::Blkparse, Format::CloudPhysics] {
            let path = folder.path().join(format!("t.{format}{ending}"));
            write(&path, format, None, &records);
            let options = Options { format: (format != Format::Columnar).then_some(format), ..Options::default() };
            let got = read(&path, &options);
            prop_assert_eq!(got.len(), records.len());
            for (g, r) in got.iter().zip(&records) {
                if format == Format::Columnar {
                    prop_assert_eq!(g, r);
                }
                prop_assert_eq!((g.op, g.time, g.sector, g.sectors), (r.op, r.time, r.sector, r.sectors));
            }
        }
    }

    #[test]
    fn columns_of_any_unit_are_read_back(records in records(DATA), time in prop::sample::select(vec!["s", "ms", "us", "100ns", "ns"])) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.csv");
        let columns = Columns::parse(&format!("device,time_{time},op,latency_{time},offset_bytes,size_sectors,task,wait_ns,io_tag")).unwrap();
        write(&path, Format::Columns, Some(&columns), &records);
        let want: Vec<Record> = records.iter().map(|r| Record { flags: Flags::NONE, ..*r }).collect();
        // By the written header line, and by name.
        prop_assert_eq!(&read(&path, &Options::default()), &want);
        prop_assert_eq!(&read(&path, &Options { columns: Some(columns), ..Options::default() }), &want);
    }
}

#[test]
fn columnar_files_have_several_blocks_and_checksums() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t");
    let records: Vec<Record> = (0..200_000u64)
        .map(|i| Record { time: Nanos(i * 1000), task: (i % 7) as u32, ..Record::new(Op::Read, i * 977 % 100_000, 8) })
        .collect();
    write(&path, Format::Columnar, None, &records);
    assert_eq!(read(&path, &Options::default()), records);
    let whole = std::fs::read(&path).unwrap();
    for cut in [20, 1000, whole.len() / 2, whole.len() - 40, whole.len() - 1] {
        std::fs::write(&path, &whole[..cut]).unwrap();
        let error = open(&[&path], &Options::default()).unwrap().find_map(Result::err).unwrap().to_string();
        assert!(error.contains("truncated"), "{cut}: {error}");
    }
    for at in [30, whole.len() / 3, whole.len() - 30, whole.len() - 4] {
        let mut broken = whole.clone();
        broken[at] ^= 0x10;
        std::fs::write(&path, &broken).unwrap();
        let error = open(&[&path], &Options::default()).unwrap().find_map(Result::err);
        assert!(error.is_some(), "a flipped bit at {at} is not detected");
    }
}

#[test]
fn lost_information_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let mut all = vec![Record::new(Op::Read, 0, 8), Record::new(Op::Discard, 8, 8), Record::new(Op::Write, 16, 8)];
    all[2].time = Nanos(1_234_567);
    all[2].task = 5;
    all[2].flags = Flags::SYNC;
    all[2].latency = Some(Nanos(9));
    let written = write(&folder.path().join("a"), Format::Alibaba, None, &all);
    let told = |part: &str| written.lost.iter().any(|l| l.reason.contains(part) && l.count == 1);
    for part in ["time cut", "task", "marks", "measured"] {
        assert!(told(part), "{part}: {:?}", written.lost);
    }
    let written = write(&folder.path().join("b"), Format::Mqsim, None, &all);
    assert_eq!((written.records, written.left_out[0].count), (2, 1));
    let written = write(&folder.path().join("c"), Format::Order, None, &all);
    assert!(written.lost.iter().any(|l| l.reason.contains("size") && l.count == 3));
}

#[test]
fn a_file_appears_only_when_complete() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.csv.gz");
    let mut writer = TraceWriter::create(&path, Format::Msr, None, ALL).unwrap();
    writer.write(&Record::new(Op::Read, 0, 8)).unwrap();
    assert!(!path.exists());
    drop(writer);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    write(&path, Format::Msr, None, &[Record::new(Op::Read, 0, 8)]);
    assert_eq!(std::fs::read(&path).unwrap()[..2], [0x1f, 0x8b]);
    let nowhere = TraceWriter::create(&folder.path().join("no/such/x"), Format::Msr, None, ALL).err().unwrap();
    assert!(nowhere.to_string().contains("cannot write"), "{nowhere}");
    for format in [Format::HpSrt, Format::Blktrace] {
        assert!(TraceWriter::create(&path, format, None, ALL).err().unwrap().to_string().contains("can be written"));
    }
}

#[test]
fn a_failed_conversion_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (folder.path().join("from"), folder.path().join("to"));
    write(&from, Format::Columnar, None, &[Record::new(Op::Read, 0, 8)]);
    let mut bytes = std::fs::read(&from).unwrap();
    bytes.truncate(bytes.len() - 3);
    std::fs::write(&from, bytes).unwrap();
    std::fs::write(&to, "what was there").unwrap();
    let mut reader = open(&[&from], &Options::default()).unwrap();
    assert!(convert(&mut reader, &to, Format::Msr, None, &Filter::default(), &|| false).is_err());
    assert_eq!(std::fs::read_to_string(&to).unwrap(), "what was there");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
}
