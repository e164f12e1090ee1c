//! Tables of tools and headers of archives: which format and units they select, and what is proposed for others.

use std::io::Cursor;

use dumbwaiter_block::{Flags, Nanos, Op};
use dumbwaiter_traces::{Columns, Error, Filter, Format, Options, Record, TraceReader, convert, open_reader};
use proptest::prelude::*;

fn open(text: &str, options: &Options) -> Result<TraceReader, Error> {
    open_reader("t", Box::new(Cursor::new(text.as_bytes().to_vec())), options)
}

fn read(text: &str, options: &Options) -> (TraceReader, Vec<Record>) {
    let mut reader = open(text, options).unwrap_or_else(|e| panic!("{e}"));
    let records = reader.by_ref().map(Result::unwrap).collect();
    (reader, records)
}

fn plain(text: &str) -> (TraceReader, Vec<Record>) {
    read(text, &Options::default())
}

fn by(columns: &str) -> Options {
    Options { columns: Some(Columns::parse(columns).unwrap()), ..Options::default() }
}

/// Arrivals in µs.
fn arrivals(records: &[Record]) -> Vec<u64> {
    records.iter().map(|r| r.time.0 / 1000).collect()
}

const BIOSNOOP: &str = "\
Tracing block device I/O... Hit Ctrl-C to end.
TIME(s)     COMM           PID     DISK      T SECTOR     BYTES  LAT(ms)
0.010000    db             411     sdb       R 1048576    8192      9.00
0.012000    my app         412     sdb       W 881208     4096     11.50
0.020000    db             411     sdb       R 3104120    8192      2.00
";

#[test]
fn biosnoop_prints_completions_which_become_arrivals() {
    let (reader, records) = plain(BIOSNOOP);
    // The second began at 0.5 ms, before the first at 1 ms.
    assert_eq!(arrivals(&records), [0, 500, 17_500]);
    assert_eq!(records.iter().map(|r| r.sector).collect::<Vec<_>>(), [881_208, 1_048_576, 3_104_120]);
    assert_eq!(records.iter().map(|r| r.latency.unwrap().0 / 1000).collect::<Vec<_>>(), [11_500, 9000, 2000]);
    assert_eq!(records.iter().map(|r| r.task).collect::<Vec<_>>(), [412, 411, 411]);
    assert!(reader.skipped().is_empty() && reader.changed().is_empty());
    assert!(reader.notes().iter().any(|note| note == "the header is that of biosnoop"), "{:?}", reader.notes());
}

#[test]
fn the_queue_of_biosnoop_is_part_of_the_latency() {
    let text = "TIME(s) COMM PID DISK T SECTOR BYTES QUE(ms) LAT(ms)\n\
                1.000 a 1 sda WS 8 4096 100.0 50.0\n1.000 a 1 sda RA 16 4096 0.0 100.0\n1.1 a 1 sda FF 18446744073709551615 0 0.0 1.0\n";
    let (_, records) = plain(text);
    assert_eq!(arrivals(&records), [0, 50_000, 249_000]);
    assert_eq!((records[0].wait.unwrap().0, records[0].latency.unwrap().0), (100_000_000, 150_000_000));
    assert_eq!((records[0].flags, records[1].flags), (Flags::SYNC, Flags::RAHEAD));
    assert_eq!((records[2].op, records[2].sectors), (Op::Flush, 0));
    let clock = "TIME         COMM PID DISK T SECTOR BYTES P LAT(ms)\n\
                 23:59:59.900 a 1 sda R 8 4096 R 100.0\n00:00:00.100 a 1 sda R 16 4096 S 100.0\n";
    assert_eq!(arrivals(&plain(clock).1), [0, 200_000]);
    let midnight = "23:59:59.9;00:00:00.1;R;8\n23:59:59.95;00:00:00.2;R;16\n00:00:01;00:00:02;R;24\n";
    let (_, records) = read(midnight, &by("time_s,completed_s,op,lba"));
    assert_eq!(arrivals(&records), [0, 50_000, 1_100_000]);
    assert_eq!(records.iter().map(|r| r.latency.unwrap().0 / 1_000_000).collect::<Vec<_>>(), [200, 250, 1000]);
}

#[test]
fn iosnoop_has_starts_or_ends_or_neither() {
    let text = "Tracing block I/O. Ctrl-C to end.\n\
                STARTs          ENDs            COMM         PID    TYPE DEV      BLOCK        BYTES     LATms\n\
                10.000000 10.010000 worker 71 RM 8,0 9096 4096 10.0\n10.002000 10.004000 a b 72 WSM 8,0 18192 4096 2.0\n";
    let (_, records) = plain(text);
    assert_eq!(arrivals(&records), [0, 2000]);
    assert_eq!(records[1].flags, Flags::SYNC.with(Flags::META));
    let ends = text.replace("STARTs          ", "").replace("10.000000 ", "").replace("10.002000 ", "");
    assert_eq!(arrivals(&plain(&ends).1), [0, 2000]);
    let (reader, records) = plain("COMM PID TYPE DEV BLOCK BYTES LATms\na 1 R 8,0 8 512 1.0\n");
    assert_eq!((records.len(), reader.missing()), (1, vec!["time"]));
}

/// The operations of the kernel in a table without a header.
#[test]
fn rwbs_words_are_operations_everywhere() {
    let line = |op: &str, sector: u32, bytes: u32| format!("worker 71 {op} 8,0 {sector} {bytes} 2.5\n");
    let text: String = ["RA", "RM", "WSM", "R", "WS", "DS"].iter().map(|op| line(op, 9096, 4096)).collect();
    let (reader, records) = read(&(text + &line("FF", 0, 0)), &by("comm,pid,op,_,sector,bytes,latency_ms"));
    let ops: Vec<Op> = records.iter().map(|r| r.op).collect();
    assert_eq!(ops, [Op::Read, Op::Read, Op::Write, Op::Read, Op::Write, Op::Discard, Op::Flush]);
    assert!(reader.skipped().is_empty(), "{:?}", reader.skipped());
}

const FTRACE: &str = "\
# tracer: nop
#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION
       my-fio x-1234    [001] d..1.   100.000000: block_bio_queue: 8,0 R 9096 + 8 [fio]
       my-fio x-1234    [001] d..1.   100.000001: block_plug: [fio]
       my-fio x-1234    [001] d..1.   100.000002: block_rq_insert: 8,0 R 4096 () 9096 + 8 be,0,4 [fio]
   kworker/1:1H-88      (   88) [001] d..1.   100.000100: block_rq_issue: 8,0 R 4096 () 9096 + 8 [kworker/1:1H]
          <idle>-0      [000] ..s1.   100.004000: block_rq_complete: 8,0 R () 9096 + 8 [0]
          fio-1234      [001] d..1.   100.005000: block_bio_queue: 8,0 FWS 0 + 0 [fio]
";

#[test]
fn tracepoints_of_one_request_count_once() {
    let perf = "fio  1234 [001]   100.000000: block:block_rq_issue: 8,0 WS 4096 () 9096 + 8 [fio]\n\
                \tffffffff81400000 blk_mq_start_request ([kernel.kallsyms])\n\n\
                swapper     0 [000]   100.004000: block:block_rq_complete: 8,0 WS () 9096 + 8 [0]\n";
    for (text, ops, latency, wait) in
        [(FTRACE, vec![Op::Read, Op::Flush], 4000, Some(100)), (perf, vec![Op::Write], 4000, None)]
    {
        let (reader, records) = plain(text);
        assert_eq!(reader.format(), Format::Ftrace);
        assert_eq!(records.iter().map(|r| r.op).collect::<Vec<_>>(), ops);
        assert_eq!((records[0].task, records[0].sector, records[0].sectors), (1234, 9096, 8));
        assert_eq!(records[0].latency.map(|l| l.0 / 1000), Some(latency));
        assert_eq!(records[0].wait.map(|w| w.0 / 1000), wait);
        assert!(reader.skipped().is_empty(), "{:?}", reader.skipped());
    }
}

#[test]
fn an_event_column_counts_a_request_once() {
    let text = "0.000001 411 Q WS 9096 8\n0.000002 411 G WS 9096 8\n0.000100 411 D WS 9096 8\n0.000200 411 Q R 100 8\n\
                0.004001 0 C WS 9096 8\n";
    let error = open(text, &Options::default()).err().expect("no header").to_string();
    let list = "time_s,pid,event,op,sector,sectors";
    assert!(error.contains("--columns time_s,_,event,op,offset_sectors,size_sectors"), "{error}");
    let (_, records) = read(text, &by(list));
    assert_eq!(arrivals(&records), [0, 199]);
    assert_eq!(records[0].latency.unwrap().0, 4_000_000);
    assert_eq!(records[0].wait.unwrap().0, 99_000);
    let issued = "ts_us,event,op,lba,sectors\n0,issue,R,8,8\n5,complete,R,8,8\n";
    let (_, records) = read(issued, &by("time_us,event,op,lba,sectors"));
    assert_eq!((records.len(), records[0].latency.unwrap().0), (1, 5000));
}

#[test]
fn headers_of_archives_select_format_and_units() {
    for (text, format, latency, bytes) in [
        (
            "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime\n128166372003000000,srv,0,Read,4096,8192,41300\n",
            Format::Msr,
            4_130_000,
            8192,
        ),
        (
            "Timestamp,Response,IOType,LUN,Offset,Size\n1456095145.133076000,0.000806000,R,0,4096,8192\n",
            Format::Systor,
            806_000,
            8192,
        ),
        ("device_id,opcode,offset,length,timestamp\n7,R,4096,8192,1577808000000046\n", Format::Alibaba, 0, 8192),
        ("Timestamp,Offset,Size,IOType,VolumeID\n1538323200,8,16,0,1063\n", Format::Tencent, 0, 8192),
        ("ID,Timestamp,Type,Offset,Length\n1157,3.828359,R,4096,8192\n", Format::Columns, 0, 8192),
        ("ts,pid,process,lba,size,rw,major,minor,md5\n", Format::Fiu, 0, 0),
        ("ASU,LBA,Size,Opcode,Timestamp\n0,8,8192,R,0.5\n", Format::Spc, 0, 8192),
        ("ts,lba,op,size\n10,8,R,8192\n", Format::Columns, 0, 8192),
    ] {
        let mut reader = open(text, &Options::default()).unwrap_or_else(|e| panic!("{text}: {e}"));
        assert_eq!(reader.format(), format, "{text}");
        if bytes == 0 {
            continue;
        }
        let record = reader.next_record().unwrap().unwrap();
        assert_eq!((record.op, record.sector, record.bytes()), (Op::Read, 8, bytes), "{text}");
        assert_eq!(record.latency.map_or(0, |l| l.0), latency, "{text}");
        let archive = reader.notes().iter().any(|note| note.starts_with("the header is that of"));
        assert!(archive, "{:?}", reader.notes());
    }
    let bare = "1456095145.133076000,0.000806000,R,0,4096,8192\n1456095145.2,0.0008,W,0,4096,8192\n";
    assert_eq!(plain(bare).0.format(), Format::Systor);
}

const ETW: &str = "BeginHeader\n  DiskRead, TimeStamp, Process Name ( PID), ThreadID, IrpPtr, ByteOffset, IOSize, ElapsedTime, DiskNum, IrpFlags, DiskSvcTime, I/O Pri, VolSnap, FileObject, FileName\nEndHeader\n\
                DiskReadInit, 1000, p1 ( 980), 68, 0xf\n\
                DiskRead, 2000, p1 ( 980), 68, 0xf, 0x1000, 0x00002000, 1000, 3, 0x43, 400, 0, Unknown, 0xf, \"f\"\n\
                DiskWrite, 2100, p1 ( 980), 68, 0xf, 0x2000, 0x00001000, 1500, 3, 0x43, 1500, 0, Unknown, 0xf, \"f\"\n";

#[test]
fn windows_traces_have_each_request_once_at_its_arrival() {
    let (reader, records) = plain(ETW);
    assert_eq!((reader.format(), records.len()), (Format::Etw, 2));
    assert_eq!(arrivals(&records), [0, 400]);
    let read = records.iter().find(|r| r.op == Op::Read).unwrap();
    assert_eq!((read.sector, read.bytes(), read.task, read.device), (8, 8192, 980, 3));
    assert_eq!((read.latency.unwrap().0, read.wait.unwrap().0), (1_000_000, 600_000));
}

#[test]
fn summaries_are_refused_by_name() {
    let iostat = "Linux 6.1.0 (host)\n\nDevice            r/s     rkB/s     w/s     wkB/s  %util\nsda 1.00 64.00 2.00 8.00 3.10\n";
    let error = open(iostat, &Options::default()).err().expect("no trace").to_string();
    assert!(error.contains("the output of iostat") && error.contains("blktrace -d"), "{error}");
}

/// A word for a column, its values, and whether the trace needs it.
fn column() -> impl Strategy<Value = (String, Vec<String>)> {
    let unit = || prop::sample::select(vec!["", "_s", "(ms)", "_us", " (ns)", "_bytes", "(sectors)"]);
    let name = prop::sample::select(vec![
        "time",
        "Timestamp",
        "start_time",
        "endtime",
        "latency",
        "LAT",
        "ResponseTime",
        "op",
        "type",
        "IOType",
        "T",
        "action",
        "event",
        "offset",
        "LBA",
        "sector",
        "block",
        "addr",
        "size",
        "Bytes",
        "len",
        "count",
        "sectors",
        "disk",
        "LUN",
        "device",
        "host",
        "pid",
        "COMM",
        "junk",
        "flags",
        "queue",
        "gap_us",
        "wait_ms",
        "sync",
        "major",
    ]);
    let values = prop::sample::select(vec![
        vec!["0.5", "1.25", "7.0"],
        vec!["1000", "2000", "3500"],
        vec!["128166372003061629", "128166372013061629", "128166372023061629"],
        vec!["R", "W", "R"],
        vec!["RA", "WSM", "FF"],
        vec!["Q", "C", "D"],
        vec!["0", "1", "1"],
        vec!["4096", "1048576", "512"],
        vec!["17", "80813", "9096"],
        vec!["sda", "sdb", "sda"],
    ]);
    (name, unit(), values)
        .prop_map(|(name, unit, values)| (format!("{name}{unit}"), values.into_iter().map(str::to_owned).collect()))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Text of tools with a few bytes changed is read to its end, or refused.
    #[test]
    fn no_mutation_panics(which in 0usize..3, edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), any::<bool>()), 0..12)) {
        let mut bytes = [BIOSNOOP, FTRACE, ETW][which].as_bytes().to_vec();
        for (at, byte, digits) in edits {
            let at = at.index(bytes.len());
            bytes[at] = if digits { b"0123456789-:. +,\n@"[usize::from(byte) % 18] } else { byte };
        }
        if let Ok(mut reader) = open_reader("t", Box::new(Cursor::new(bytes)), &Options::default()) {
            while let Ok(Some(_)) = reader.next_record() {}
        }
    }

    /// Whatever list is proposed for a header can be typed, and reads the file.
    #[test]
    fn a_proposed_list_is_accepted(named in any::<bool>(), columns in prop::collection::vec(column(), 2..9), delimiter in prop::sample::select(vec![",", ";", "\t"])) {
        let names: Vec<&str> = columns.iter().map(|(name, _)| name.as_str()).collect();
        let mut text = if named { names.join(delimiter) + "\n" } else { String::new() };
        for i in 0..3 {
            text += &(columns.iter().map(|(_, values)| values[i].as_str()).collect::<Vec<_>>().join(delimiter) + "\n");
        }
        let Err(error) = open(&text, &Options::default()) else { return Ok(()) };
        let error = error.to_string();
        let Some((_, list)) = error.split_once("--columns ") else { return Ok(()) };
        let list = list.split(' ').next().unwrap_or_default();
        let parsed = Columns::parse(list).map_err(|e| TestCaseError::fail(format!("{text}: {e}")))?;
        let options = Options { columns: Some(parsed), ..Options::default() };
        let read = open(&text, &options).and_then(|mut reader| reader.next_record());
        // The only arrival may have no data.
        let empty = matches!(&read, Err(e) if e.to_string().contains("zero length"));
        prop_assert!(empty || matches!(read, Ok(Some(_))), "{text}{list}: {read:?}");
    }
}

/// A part of [`BIOSNOOP`] or another text, as CSV without its header.
fn part(text: &str, filter: &Filter) -> Result<String, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("part.csv");
    let columns = Columns::parse("time_us,op,lba,task").unwrap();
    let mut reader = open(text, &Options::default()).unwrap();
    convert(&mut reader, &path, Format::Columns, Some(&columns), filter, &|| false).map_err(|e| e.to_string())?;
    Ok(std::fs::read_to_string(path).unwrap().lines().skip(1).map(|line| format!("{line} ")).collect())
}

#[test]
fn a_part_of_a_trace_is_converted() {
    let of = |filter: Filter| part(BIOSNOOP, &filter).unwrap();
    let all = Filter::default();
    assert_eq!(of(all.clone()), "0,W,881208,412 500,R,1048576,411 17500,R,3104120,411 ");
    let us = |us: u64| Nanos(us * 1000);
    assert_eq!(of(Filter { start: us(500), ..all.clone() }), "0,R,1048576,411 17000,R,3104120,411 ");
    assert_eq!(of(Filter { end: Some(us(500)), ..all.clone() }), "0,W,881208,412 ");
    assert_eq!(of(Filter { tasks: vec!["411".into()], skip: 1, ..all.clone() }), "0,R,3104120,411 ");
    assert_eq!(of(Filter { records: Some(1), skip: 1, ..all.clone() }), "0,R,1048576,411 ");
    assert!(of(Filter { devices: vec!["sdb".into()], ..all.clone() }).starts_with("0,W"));
    let none = part(BIOSNOOP, &Filter { devices: vec!["sdz".into()], ..all.clone() }).unwrap_err();
    assert!(none.contains("sdz"), "{none}");
    let backwards = Filter { start: us(9), end: Some(us(9)), ..all.clone() };
    assert!(part(BIOSNOOP, &backwards).unwrap_err().contains("after the start"));
    let numbered = Filter { devices: vec!["8,0".into()], ..all };
    assert_eq!(part(FTRACE, &numbered).unwrap(), "0,R,9096,1234 5000,F,0,1234 ");
}

#[test]
fn the_first_line_that_is_left_out_is_shown() {
    let text = "1,R,0,1000\n0,W,4096,512\n5,X,8192,512\n9,R,512,512\n^C\n";
    let (reader, records) = read(text, &by("time_us,op,offset_bytes,size_bytes"));
    assert_eq!(records.len(), 3);
    let example = reader.example().unwrap();
    assert_eq!(
        example,
        "line 3: \"5,X,8192,512\" has \"X\" where an operation (read, write, discard, flush, …) is expected"
    );
    let changed: Vec<String> = reader.changed().into_iter().map(|c| format!("{} {}", c.count, c.reason)).collect();
    assert_eq!(changed, ["1 widened to whole 512-byte sectors", "1 time before the record in front; moved up to it"]);
}
