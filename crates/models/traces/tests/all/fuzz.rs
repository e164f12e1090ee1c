//! Readers of arbitrary bytes end with records or an error.

use std::io::Cursor;
use std::path::PathBuf;

use dumbwaiter_traces::{Columns, Format, Options, Record, StatBuilder, StatOptions, TraceStat, open_reader};
use proptest::prelude::*;

/// Reads the bytes in every format and by detection, and checks the invariants of records.
fn survive(bytes: &[u8], formats: &[Option<Format>]) {
    for format in formats {
        let columns = (*format == Some(Format::Columns))
            .then(|| Columns::parse("time_ms,op,offset_bytes,size_4k,device,task,latency_us,name").unwrap());
        let options = Options { format: *format, columns, ..Options::default() };
        let Ok(mut reader) = open_reader("t", Box::new(Cursor::new(bytes.to_vec())), &options) else { continue };
        let mut stat = StatBuilder::new(&StatOptions { footprint_block: 1 << 30, limit: None });
        let (mut last, mut records) = (0, 0u64);
        let ended = loop {
            match reader.next_record() {
                Ok(Some(Record { time, sector, sectors, op, .. })) => {
                    assert!(time.0 >= last);
                    last = time.0;
                    assert!(sector.checked_add(u64::from(sectors)).is_some_and(|end| end <= u64::MAX / 512));
                    assert!(sectors > 0 || op == dumbwaiter_block::Op::Flush);
                    records += 1;
                    assert!(records <= bytes.len() as u64 * 64, "more records than the input can hold");
                }
                Ok(None) => break true,
                Err(error) => {
                    assert!(!error.to_string().is_empty());
                    break false;
                }
            }
        };
        assert!(!ended || records > 0, "an empty trace is an error");
        stat.add(&Record::new(dumbwaiter_block::Op::Read, 0, 8));
        let stat: TraceStat = stat.finish(&reader);
        assert_eq!(stat.records, 1);
    }
}

fn every() -> Vec<Option<Format>> {
    std::iter::once(None).chain(Format::ALL.into_iter().map(Some)).collect()
}

/// The first bytes of every shared trace, decompressed.
fn prefixes() -> Vec<(PathBuf, Vec<u8>)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../../shared/data/traces");
    let mut found = Vec::new();
    if !folder.is_dir() {
        println!("skipped: no shared data");
        return found;
    }
    for sub in std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).filter(|p| p.is_dir()) {
        for file in std::fs::read_dir(sub).unwrap().map(|e| e.unwrap().path()) {
            if file.extension().is_some_and(|e| e == "zst") {
                let bytes = std::fs::read(&file).unwrap();
                let mut whole = zstd::decode_all(bytes.as_slice()).unwrap();
                whole.truncate(8192);
                found.push((file, whole));
            }
        }
    }
    found.sort();
    found
}

/// Text made of typical pieces of traces.
fn pieces() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop::sample::select(vec![
        "0",
        "1",
        "8,16",
        "0.000000001",
        "1266874889.709",
        "18446744073709551615",
        "99999999999999999999",
        "-1",
        "1e300",
        "nan",
        "R",
        "W",
        "FWFSM",
        "N",
        "Q",
        "D",
        "C",
        "+",
        "[x]",
        "(null)",
        ",",
        " ",
        "\t",
        "\n",
        "\r\n",
        "\0",
        "Read",
        "fio version 2 iolog\n",
        "fio version 3 iolog\n",
        "/dev/sda add",
        "wait",
        "CPU0",
        "#",
        "\"",
        "|",
        "time_ms,op,offset_bytes\n",
        "é",
        "1,2,3,4,5,6,7\n",
    ]);
    prop::collection::vec(piece, 0..200).prop_map(|p| p.concat().into_bytes())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: proptest_cases(), ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_bytes(bytes in prop::collection::vec(any::<u8>(), 0..3000)) {
        survive(&bytes, &every());
    }

    #[test]
    fn arbitrary_bytes_after_a_magic(which in 0usize..8, bytes in prop::collection::vec(any::<u8>(), 0..3000)) {
        let magics: [&[u8]; 8] = [
            b"DWTRACE1\x0f\0\0\0\0\0\0\0", b"$$TR_IOREC\x0c\0\0\0\x38\0\x04\0\x01", b"\x07\x74\x61\x65", b"\x65\x61\x74\x07",
            b"\x1f\x8b\x08\0", b"\x28\xb5\x2f\xfd", b"fio version 3 iolog\n", b"DWTRACE1\x0f\0\0\0\0\0\0\0\x01\0\0\0",
        ];
        survive(&[magics[which], &bytes].concat(), &[None]);
    }

    #[test]
    fn arbitrary_pieces_of_text(bytes in pieces()) {
        survive(&bytes, &every());
    }
}

#[test]
fn mutated_beginnings_of_real_traces() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    for (path, prefix) in prefixes() {
        let edits = prop::collection::vec((0..prefix.len(), any::<u8>(), 0usize..64), 0..12);
        for _ in 0..proptest_cases() / 10 {
            let mut bytes = prefix.clone();
            let edits = edits.new_tree(&mut runner).unwrap().current();
            for (at, byte, cut) in edits {
                let at = at.min(bytes.len().saturating_sub(1));
                match byte % 4 {
                    0 => bytes[at] = byte,
                    1 => bytes[at] ^= 1 << (byte >> 5),
                    2 => drop(bytes.drain(at..(at + cut).min(bytes.len()))),
                    _ => bytes.insert(at, byte),
                }
                if bytes.is_empty() {
                    bytes.push(byte);
                }
            }
            println!("{}", path.display());
            survive(&bytes, &[None, Some(Format::Blkparse), Some(Format::Columns), Some(Format::Vscsi)]);
        }
    }
}

use proptest::strategy::ValueTree;

/// `PROPTEST_CASES`, by default 128.
fn proptest_cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(128)
}
