//! Results as Parquet files, for notebooks: one file per kind of row, joined by `run`.

use crate::file::{Error, write_file};
use dumbwaiter_advise::{Document, Provenance};
use dumbwaiter_measure::{Latency, RunResult};
use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;
use serde_json::Value;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

/// The values of a column.
enum Values {
    Text(Vec<String>),
    Whole(Vec<u64>),
    /// NaN becomes null.
    Real(Vec<f64>),
}

/// The columns of one file.
#[derive(Default)]
struct Columns(Vec<(&'static str, Values)>);

impl Columns {
    fn text(&mut self, name: &'static str, values: impl Iterator<Item = String>) -> &mut Self {
        self.0.push((name, Values::Text(values.collect())));
        self
    }

    fn whole(&mut self, name: &'static str, values: impl Iterator<Item = u64>) -> &mut Self {
        self.0.push((name, Values::Whole(values.collect())));
        self
    }

    fn real(&mut self, name: &'static str, values: impl Iterator<Item = f64>) -> &mut Self {
        self.0.push((name, Values::Real(values.collect())));
        self
    }

    fn write(&self, out: impl Write + Send) -> parquet::errors::Result<()> {
        let field = |(name, values): &(&'static str, Values)| {
            let builder = match values {
                Values::Text(_) => Type::primitive_type_builder(name, Physical::BYTE_ARRAY)
                    .with_logical_type(Some(LogicalType::String))
                    .with_repetition(Repetition::REQUIRED),
                Values::Whole(_) => {
                    Type::primitive_type_builder(name, Physical::INT64).with_repetition(Repetition::REQUIRED)
                }
                Values::Real(_) => {
                    Type::primitive_type_builder(name, Physical::DOUBLE).with_repetition(Repetition::OPTIONAL)
                }
            };
            builder.build().map(Arc::new)
        };
        let fields = self.0.iter().map(field).collect::<Result<Vec<_>, _>>()?;
        let schema = Arc::new(Type::group_type_builder("dumbwaiter").with_fields(fields).build()?);
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_created_by("dumbwaiter".to_string())
            .build();
        let mut writer = SerializedFileWriter::new(out, schema, Arc::new(properties))?;
        let mut group = writer.next_row_group()?;
        for (_, values) in &self.0 {
            let Some(mut column) = group.next_column()? else { break };
            match values {
                Values::Text(v) => {
                    let v: Vec<ByteArray> = v.iter().map(|s| ByteArray::from(s.as_str())).collect();
                    column.typed::<ByteArrayType>().write_batch(&v, None, None)?;
                }
                Values::Whole(v) => {
                    // Parquet's integers are signed: seeds above 2^63 wrap, bits unchanged.
                    let v: Vec<i64> = v.iter().map(|n| *n as i64).collect();
                    column.typed::<Int64Type>().write_batch(&v, None, None)?;
                }
                Values::Real(v) => {
                    let defined: Vec<i16> = v.iter().map(|x| i16::from(!x.is_nan())).collect();
                    let v: Vec<f64> = v.iter().copied().filter(|x| !x.is_nan()).collect();
                    column.typed::<DoubleType>().write_batch(&v, Some(&defined), None)?;
                }
            }
            column.close()?;
        }
        group.close()?;
        writer.close()?;
        Ok(())
    }
}

/// Writes `runs.parquet`, `tenants.parquet`, `series.parquet`, `latency_cdf.parquet` and `provenance.parquet` into `dir`, which is created if
/// missing. `run` is the index in the document's `runs`; units are in the
/// names of the columns.
pub fn write_parquet(document: &Document, dir: &Path) -> Result<(), Error> {
    dumbwaiter_output::create_folder(dir).map_err(|source| Error::Write { path: dir.to_path_buf(), source })?;
    let files = [
        ("runs.parquet", runs(document)),
        ("tenants.parquet", tenants(document)),
        ("series.parquet", series(document)),
        ("latency_cdf.parquet", latency_cdf(document)),
        ("provenance.parquet", provenance(&document.provenance)),
    ];
    for (name, columns) in &files {
        write_file(&dir.join(name), |out| columns.write(out).map_err(io::Error::other))?;
    }
    Ok(())
}

/// Names and values: `machine.kernel`, `drive.queue.nr_requests`.
fn provenance(of: &Provenance) -> Columns {
    fn flatten(name: &str, value: &Value, into: &mut Vec<(String, String)>) {
        let below = |key: &str| if name.is_empty() { key.to_owned() } else { format!("{name}.{key}") };
        match value {
            Value::Null => {}
            Value::Object(map) => map.iter().for_each(|(key, value)| flatten(&below(key), value, into)),
            Value::String(text) => into.push((name.to_owned(), text.clone())),
            other => into.push((name.to_owned(), other.to_string())),
        }
    }
    let mut pairs = Vec::new();
    flatten("", &serde_json::to_value(of).unwrap_or(Value::Null), &mut pairs);
    let mut c = Columns::default();
    c.text("name", pairs.iter().map(|(name, _)| name.clone()))
        .text("value", pairs.iter().map(|(_, value)| value.clone()));
    c
}

/// The columns that identify the run of a row; `rows` gives the number of rows of each run.
fn keys(columns: &mut Columns, document: &Document, rows: impl Fn(&RunResult) -> usize) {
    let runs = &document.runs;
    let own = document.scenario.get("name").and_then(Value::as_str).unwrap_or_default();
    let scenario = |run: &RunResult| {
        let of_suite = document.suite.as_ref().and_then(|suite| suite.scenario_of(&run.device, &run.variant));
        of_suite.unwrap_or(own).to_owned()
    };
    let index: Vec<usize> = runs.iter().enumerate().flat_map(|(i, r)| std::iter::repeat_n(i, rows(r))).collect();
    columns
        .whole("run", index.iter().map(|i| *i as u64))
        .text("scenario", index.iter().map(|i| scenario(&runs[*i])))
        .text("device", index.iter().map(|i| runs[*i].device.clone()))
        .text("variant", index.iter().map(|i| runs[*i].variant.clone()))
        .text("scheduler", index.iter().map(|i| runs[*i].scheduler.clone()))
        .whole("replicate", index.iter().map(|i| u64::from(runs[*i].replicate)));
}

/// The latency columns of a group of requests.
fn latencies<'a>(columns: &mut Columns, names: [&'static str; 7], of: impl Iterator<Item = &'a Latency> + Clone) {
    let get: [fn(&Latency) -> f64; 7] =
        [|l| l.mean, |l| l.p50, |l| l.p95, |l| l.p99, |l| l.p99_9, |l| l.max, |l| l.stddev];
    for (name, get) in names.into_iter().zip(get) {
        columns.real(name, of.clone().map(get));
    }
}

fn runs(document: &Document) -> Columns {
    let runs = &document.runs;
    let mut c = Columns::default();
    keys(&mut c, document, |_| 1);
    c.text("world", runs.iter().map(|r| r.world.clone()));
    c.text("via", runs.iter().map(|r| r.via.clone()));
    c.text("completion", runs.iter().map(|r| r.completion.clone()))
        .whole("seed", runs.iter().map(|r| r.seed))
        .whole("requests", runs.iter().map(|r| r.requests))
        .whole("warmup_completed", runs.iter().map(|r| r.warmup_completed))
        .whole("completed", runs.iter().map(|r| r.completed))
        .whole("unfinished", runs.iter().map(|r| r.unfinished))
        .real("oldest_unfinished_s", runs.iter().map(|r| r.oldest_unfinished_s))
        .whole("errors", runs.iter().map(|r| r.errors))
        .real("duration_s", runs.iter().map(|r| r.duration_s))
        .real("iops", runs.iter().map(|r| r.iops))
        .real("mb_per_s", runs.iter().map(|r| r.mb_per_s))
        .real("read_iops", runs.iter().map(|r| r.read.iops))
        .real("read_mb_per_s", runs.iter().map(|r| r.read.mb_per_s))
        .real("write_iops", runs.iter().map(|r| r.write.iops))
        .real("write_mb_per_s", runs.iter().map(|r| r.write.mb_per_s))
        .real("pv", runs.iter().map(|r| r.fairness.pv))
        .real("pv_share", runs.iter().map(|r| r.fairness.pv_share))
        .real("share_error", runs.iter().map(|r| r.fairness.share_error))
        .real("jain", runs.iter().map(|r| r.fairness.jain))
        .real("cpu_us_per_io", runs.iter().map(|r| r.cpu.us_per_io))
        .real("ctx_per_io", runs.iter().map(|r| r.cpu.ctx_per_io))
        .real("joules", runs.iter().map(|r| r.energy.as_ref().map_or(f64::NAN, |e| e.joules)))
        .real("j_per_mio", runs.iter().map(|r| r.energy.as_ref().map_or(f64::NAN, |e| e.j_per_mio)))
        .real("bytes_per_j", runs.iter().map(|r| r.energy.as_ref().map_or(f64::NAN, |e| e.bytes_per_j)))
        .real("cpu_busy_s", runs.iter().map(|r| r.cpu.busy_s))
        .real("queue_mean_us", runs.iter().map(|r| r.phases_us.queue.mean))
        .real("device_mean_us", runs.iter().map(|r| r.phases_us.device.mean))
        .real("depth_scheduler_mean", runs.iter().map(|r| r.depth.scheduler.mean))
        .real("depth_device_mean", runs.iter().map(|r| r.depth.device.mean));
    let all = ["mean_us", "p50_us", "p95_us", "p99_us", "p99_9_us", "max_us", "stddev_us"];
    latencies(&mut c, all, runs.iter().map(|r| &r.latency_us));
    let read =
        ["read_mean_us", "read_p50_us", "read_p95_us", "read_p99_us", "read_p99_9_us", "read_max_us", "read_stddev_us"];
    latencies(&mut c, read, runs.iter().map(|r| &r.read.latency_us));
    let write = [
        "write_mean_us",
        "write_p50_us",
        "write_p95_us",
        "write_p99_us",
        "write_p99_9_us",
        "write_max_us",
        "write_stddev_us",
    ];
    latencies(&mut c, write, runs.iter().map(|r| &r.write.latency_us));
    c
}

fn tenants(document: &Document) -> Columns {
    let runs = &document.runs;
    let mut c = Columns::default();
    keys(&mut c, document, |r| r.tenants.len());
    let all = || runs.iter().flat_map(|r| &r.tenants);
    c.text("tenant", all().map(|t| t.name.clone()))
        .whole("weight", all().map(|t| u64::from(t.weight)))
        .real("share", all().map(|t| t.share))
        .real("ideal_share", all().map(|t| t.ideal_share))
        .whole("completed", all().map(|t| t.count))
        .real("iops", all().map(|t| t.iops))
        .real("mb_per_s", all().map(|t| t.mb_per_s))
        .real("mb_per_s_min", all().map(|t| t.bandwidth.min))
        .real("mb_per_s_max", all().map(|t| t.bandwidth.max))
        .real("mb_per_s_stddev", all().map(|t| t.bandwidth.stddev));
    let names = ["mean_us", "p50_us", "p95_us", "p99_us", "p99_9_us", "max_us", "stddev_us"];
    latencies(&mut c, names, all().map(|t| &t.latency_us));
    c
}

/// One row per interval and tenant, and one with the tenant `""` for the total.
fn series(document: &Document) -> Columns {
    let runs = &document.runs;
    let mut c = Columns::default();
    keys(&mut c, document, |r| r.series.times.len() * (r.series.tenants.len() + 1));
    let (mut tenant, mut time, mut rate) = (Vec::new(), Vec::new(), Vec::new());
    let mut totals: [Vec<f64>; 4] = Default::default();
    for run in runs {
        let s = &run.series;
        let parts = [("", &s.mb_per_s)].into_iter().chain(s.tenants.iter().map(|t| (t.name.as_str(), &t.mb_per_s)));
        for (name, mb_per_s) in parts {
            tenant.extend(std::iter::repeat_n(name.to_string(), s.times.len()));
            time.extend(&s.times);
            rate.extend(mb_per_s);
            for (to, from) in totals.iter_mut().zip([&s.iops, &s.p99_us, &s.depth_scheduler, &s.depth_device]) {
                let missing = || std::iter::repeat_n(f64::NAN, s.times.len());
                if name.is_empty() { to.extend(from) } else { to.extend(missing()) }
            }
        }
    }
    let [iops, p99, scheduler, device] = totals;
    c.text("tenant", tenant.into_iter()).real("time_s", time.into_iter()).real("mb_per_s", rate.into_iter());
    c.real("iops", iops.into_iter()).real("p99_us", p99.into_iter());
    c.real("depth_scheduler", scheduler.into_iter()).real("depth_device", device.into_iter());
    c
}

fn latency_cdf(document: &Document) -> Columns {
    let runs = &document.runs;
    let mut c = Columns::default();
    let parts = |r: &RunResult| {
        let l = &r.latency_cdf;
        [("all", l.all.clone()), ("read", l.read.clone()), ("write", l.write.clone())]
    };
    keys(&mut c, document, |r| parts(r).iter().map(|(_, cdf)| cdf.us.len()).sum());
    let all = || runs.iter().flat_map(parts);
    c.text("op", all().flat_map(|(op, cdf)| std::iter::repeat_n(op.to_string(), cdf.us.len())))
        .real("latency_us", all().flat_map(|(_, cdf)| cdf.us))
        .real("fraction", all().flat_map(|(_, cdf)| cdf.fraction));
    c
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::tests::document;
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::RowAccessor;

    fn read(dir: &Path, name: &str) -> SerializedFileReader<std::fs::File> {
        SerializedFileReader::new(std::fs::File::open(dir.join(name)).unwrap()).unwrap()
    }

    #[test]
    fn written_files_can_be_read() {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("new/folder");
        let d = document();
        write_parquet(&d, &out).unwrap();
        let runs = read(&out, "runs.parquet");
        let rows: Vec<_> = runs.get_row_iter(None).unwrap().map(Result::unwrap).collect();
        assert_eq!(rows.len(), d.runs.len());
        let names: Vec<String> =
            runs.metadata().file_metadata().schema().get_fields().iter().map(|f| f.name().to_string()).collect();
        let column = |name: &str| names.iter().position(|n| n == name).unwrap();
        for (row, run) in rows.iter().zip(&d.runs) {
            assert_eq!(row.get_string(column("scheduler")).unwrap(), &run.scheduler);
            assert_eq!(row.get_double(column("mb_per_s")).unwrap(), run.mb_per_s);
            assert_eq!(row.get_long(column("seed")).unwrap(), run.seed as i64);
        }
        let count = |name: &str| read(&out, name).metadata().file_metadata().num_rows() as usize;
        assert_eq!(count("tenants.parquet"), d.runs.iter().map(|r| r.tenants.len()).sum::<usize>());
        assert_eq!(count("series.parquet"), d.runs.iter().map(|r| r.series.times.len() * 5).sum::<usize>());
        let points =
            |r: &RunResult| r.latency_cdf.all.us.len() + r.latency_cdf.read.us.len() + r.latency_cdf.write.us.len();
        assert_eq!(count("latency_cdf.parquet"), d.runs.iter().map(points).sum::<usize>());
    }

    #[test]
    fn equal_results_give_equal_files() {
        let (a, b) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        write_parquet(&document(), a.path()).unwrap();
        write_parquet(&document(), b.path()).unwrap();
        for name in ["runs.parquet", "tenants.parquet", "series.parquet", "latency_cdf.parquet"] {
            assert_eq!(std::fs::read(a.path().join(name)).unwrap(), std::fs::read(b.path().join(name)).unwrap());
        }
    }

    #[test]
    fn errors_name_the_file_in_the_way() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("taken");
        std::fs::write(&path, "").unwrap();
        let message = write_parquet(&document(), &path).unwrap_err().to_string();
        assert!(message.contains("taken"), "{message}");
    }
}
