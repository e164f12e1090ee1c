//! Results as Parquet files, for notebooks: one file per kind of row, joined by `run`.

use crate::file::{Error, write_file};
use dumbwaiter_advise::{Document, Estimate, Provenance, RankingRow};
use dumbwaiter_measure::{Latency, RunResult};
use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::Type;
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

/// The values of a column.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// Texts.
    Text(Vec<String>),
    /// Whole numbers.
    Whole(Vec<u64>),
    /// Real numbers; NaN is a missing value.
    Real(Vec<f64>),
}

/// A column of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// Its name, with the unit at its end.
    pub name: String,
    /// Its values.
    pub values: Values,
    /// For each row, whether it has a value; `None` where all have one. NaN counts as a value here.
    pub present: Option<Vec<bool>>,
}

/// A table: columns of equal length.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Columns(Vec<Column>);

impl Columns {
    /// Adds a column of texts.
    pub fn text(&mut self, name: impl Into<String>, values: impl Iterator<Item = String>) -> &mut Self {
        self.add(name, Values::Text(values.collect()))
    }

    /// Adds a column of whole numbers.
    pub fn whole(&mut self, name: impl Into<String>, values: impl Iterator<Item = u64>) -> &mut Self {
        self.add(name, Values::Whole(values.collect()))
    }

    /// Adds a column of real numbers.
    pub fn real(&mut self, name: impl Into<String>, values: impl Iterator<Item = f64>) -> &mut Self {
        self.add(name, Values::Real(values.collect()))
    }

    fn add(&mut self, name: impl Into<String>, values: Values) -> &mut Self {
        self.push(Column { name: name.into(), values, present: None })
    }

    /// Adds a column.
    pub fn push(&mut self, column: Column) -> &mut Self {
        self.0.push(column);
        self
    }

    /// The columns, in order.
    pub fn columns(&self) -> &[Column] {
        &self.0
    }

    /// The columns, in order.
    pub fn into_columns(self) -> Vec<Column> {
        self.0
    }

    /// Writes the table as Parquet.
    pub fn write(&self, out: impl Write + Send) -> io::Result<()> {
        let mut file = ParquetFile::create(out, self)?;
        file.add(self)?;
        file.finish().map(drop)
    }

    fn fields(&self) -> parquet::errors::Result<Vec<Type>> {
        self.0.iter().map(Column::field).collect()
    }
}

/// A Parquet file that gets its rows in groups, so that a table need not be whole before it is encoded.
pub struct ParquetFile<W: Write + Send> {
    writer: SerializedFileWriter<W>,
    fields: Vec<Type>,
}

impl<W: Write + Send> ParquetFile<W> {
    /// Begins a file with the columns of a table, whose rows are not written yet.
    pub fn create(out: W, like: &Columns) -> io::Result<ParquetFile<W>> {
        let fields = like.fields().map_err(io::Error::other)?;
        let shared = fields.iter().cloned().map(Arc::new).collect();
        let schema = Type::group_type_builder("dumbwaiter").with_fields(shared).build().map_err(io::Error::other)?;
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_created_by("dumbwaiter".to_string())
            .build();
        let writer = SerializedFileWriter::new(out, Arc::new(schema), Arc::new(properties));
        Ok(ParquetFile { writer: writer.map_err(io::Error::other)?, fields })
    }

    /// Encodes rows. A table with other columns than those of the file is refused.
    pub fn add(&mut self, rows: &Columns) -> io::Result<()> {
        if rows.fields().map_err(io::Error::other)? != self.fields {
            return Err(io::Error::other("rows with other columns than those of the file"));
        }
        self.add_group(rows).map_err(io::Error::other)
    }

    fn add_group(&mut self, rows: &Columns) -> parquet::errors::Result<()> {
        let mut group = self.writer.next_row_group()?;
        for column in &rows.0 {
            let Some(mut to) = group.next_column()? else { break };
            column.write(&mut to)?;
            to.close()?;
        }
        group.close().map(drop)
    }

    /// Ends the file and returns what it was written to.
    pub fn finish(self) -> io::Result<W> {
        self.writer.into_inner().map_err(io::Error::other)
    }
}

impl Column {
    fn field(&self) -> parquet::errors::Result<Type> {
        let optional = self.present.is_some() || matches!(self.values, Values::Real(_));
        let repetition = if optional { Repetition::OPTIONAL } else { Repetition::REQUIRED };
        let builder = match &self.values {
            Values::Text(_) => Type::primitive_type_builder(&self.name, Physical::BYTE_ARRAY)
                .with_logical_type(Some(LogicalType::String)),
            Values::Whole(_) => Type::primitive_type_builder(&self.name, Physical::INT64),
            Values::Real(_) => Type::primitive_type_builder(&self.name, Physical::DOUBLE),
        };
        builder.with_repetition(repetition).build()
    }

    /// Has this row a value?
    pub fn has(&self, row: usize) -> bool {
        let number = !matches!(&self.values, Values::Real(v) if v[row].is_nan());
        number && self.present.as_ref().is_none_or(|present| present[row])
    }

    fn write(&self, to: &mut SerializedColumnWriter<'_>) -> parquet::errors::Result<()> {
        let optional = self.present.is_some() || matches!(self.values, Values::Real(_));
        let defined: Option<Vec<i16>> =
            optional.then(|| (0..self.values.len()).map(|row| i16::from(self.has(row))).collect());
        let levels = defined.as_deref();
        match &self.values {
            Values::Text(v) => {
                let v: Vec<ByteArray> = self.defined(v).map(|s| ByteArray::from(s.as_str())).collect();
                to.typed::<ByteArrayType>().write_batch(&v, levels, None)?;
            }
            Values::Whole(v) => {
                // Parquet's integers are signed: seeds above 2^63 wrap, bits unchanged.
                let v: Vec<i64> = self.defined(v).map(|n| *n as i64).collect();
                to.typed::<Int64Type>().write_batch(&v, levels, None)?;
            }
            Values::Real(v) => {
                let v: Vec<f64> = self.defined(v).copied().collect();
                to.typed::<DoubleType>().write_batch(&v, levels, None)?;
            }
        }
        Ok(())
    }

    fn defined<'a, T>(&'a self, values: &'a [T]) -> impl Iterator<Item = &'a T> {
        values.iter().enumerate().filter(|(row, _)| self.has(*row)).map(|(_, value)| value)
    }
}

impl Values {
    /// Has it no value?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        match self {
            Values::Text(v) => v.len(),
            Values::Whole(v) => v.len(),
            Values::Real(v) => v.len(),
        }
    }
}

/// Writes `runs.parquet`, `tenants.parquet`, `series.parquet`, `latency_cdf.parquet` and `provenance.parquet` into `dir`, which is created if
/// missing. `run` is the index in the document's `runs`; units are in the
/// names of the columns.
pub fn write_parquet(document: &Document, dir: &Path) -> Result<(), Error> {
    dumbwaiter_text::create_folder(dir).map_err(|source| Error::Write { path: dir.to_path_buf(), source })?;
    let files = [
        ("runs.parquet", runs(document)),
        ("tenants.parquet", tenants(document)),
        ("series.parquet", series(document)),
        ("latency_cdf.parquet", latency_cdf(document)),
        ("provenance.parquet", provenance(&document.provenance)),
    ];
    for (name, columns) in &files {
        write_file(&dir.join(name), |out| columns.write(out))?;
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

/// The latency columns of a group of requests; `group` stands before each name.
fn latencies<'a>(columns: &mut Columns, group: &str, of: impl Iterator<Item = &'a Latency> + Clone) {
    columns.real(format!("{group}mean_us"), of.clone().map(|l| l.mean));
    for (name, _, get) in Latency::PERCENTILES {
        columns.real(format!("{group}{}_us", name.replace('.', "_")), of.clone().map(get));
    }
    columns.real(format!("{group}stddev_us"), of.map(|l| l.stddev));
}

/// One row for each run.
pub fn runs(document: &Document) -> Columns {
    let mut c = Columns::default();
    keys(&mut c, document, |_| 1);
    figures(&mut c, &document.runs);
    c
}

/// Adds the figures of each run.
pub fn figures(c: &mut Columns, runs: &[RunResult]) {
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
        .whole("rejected", runs.iter().map(|r| r.rejected))
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
    latencies(c, "", runs.iter().map(|r| &r.latency_us));
    latencies(c, "read_", runs.iter().map(|r| &r.read.latency_us));
    latencies(c, "write_", runs.iter().map(|r| &r.write.latency_us));
}

/// One row for each run and tenant.
pub fn tenants(document: &Document) -> Columns {
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
    latencies(&mut c, "", all().map(|t| &t.latency_us));
    c
}

/// One row per interval and tenant, and one with the tenant `""` for the total.
pub fn series(document: &Document) -> Columns {
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

/// One row for each run, kind of operation and point of its latency distribution.
pub fn latency_cdf(document: &Document) -> Columns {
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

/// One row for each run and task.
pub fn tasks(document: &Document) -> Columns {
    let runs = &document.runs;
    let mut c = Columns::default();
    keys(&mut c, document, |r| r.tasks.len());
    let all = || runs.iter().flat_map(|r| &r.tasks);
    c.text("tenant", all().map(|t| t.tenant.clone()))
        .text("task", all().map(|t| t.name.clone()))
        .whole("completed", all().map(|t| t.count))
        .real("iops", all().map(|t| t.iops))
        .real("mb_per_s", all().map(|t| t.mb_per_s));
    latencies(&mut c, "", all().map(|t| &t.latency_us));
    c
}

/// One row for each run, kind of operation and percentile, with the number of samples.
pub fn latency(document: &Document) -> Columns {
    let runs = &document.runs;
    let mut c = Columns::default();
    keys(&mut c, document, |_| 3 * Latency::PERCENTILES.len());
    let parts = |r: &RunResult| {
        [("all", r.latency_us.clone()), ("read", r.read.latency_us.clone()), ("write", r.write.latency_us.clone())]
    };
    let rows = || {
        runs.iter()
            .flat_map(parts)
            .flat_map(|(op, l)| Latency::PERCENTILES.map(|(_, percentile, get)| (op, percentile, get(&l), l.samples)))
    };
    c.text("op", rows().map(|(op, ..)| op.to_owned()))
        .real("percentile", rows().map(|(_, percentile, ..)| percentile))
        .real("latency_us", rows().map(|(_, _, us, _)| us))
        .whole("count", rows().map(|(.., count)| count));
    c
}

/// One row for each scheduler of each device, best first: of each metric its mean and the ends of its confidence interval.
pub fn ranking(rows: &[RankingRow]) -> Columns {
    let mut c = Columns::default();
    c.text("device", rows.iter().map(|r| r.device.clone()))
        .text("variant", rows.iter().map(|r| r.variant.clone()))
        .whole("rank", rows.iter().map(|r| r.rank as u64))
        .text("scheduler", rows.iter().map(|r| r.scheduler.clone()))
        .text("completion", rows.iter().map(|r| r.completion.clone()))
        .text("via", rows.iter().map(|r| r.via.clone()))
        .whole("replicates", rows.iter().map(|r| r.replicates as u64))
        .whole("keeps_throughput", rows.iter().map(|r| u64::from(r.keeps_throughput)));
    let metrics: BTreeSet<&String> = rows.iter().flat_map(|r| r.metrics.keys()).collect();
    for metric in metrics {
        let of = |get: fn(&Estimate) -> Option<f64>| {
            rows.iter().map(move |r| r.metrics.get(metric).and_then(get).unwrap_or(f64::NAN))
        };
        c.real(metric.as_str(), of(|e| e.mean))
            .real(format!("{metric}_ci95_low"), of(|e| e.ci95.map(|ci| ci[0])))
            .real(format!("{metric}_ci95_high"), of(|e| e.ci95.map(|ci| ci[1])))
            .real(format!("{metric}_p"), of(|e| e.p));
    }
    c
}

/// Two rankings side by side: one row for each device, scheduler, completion method and metric that both have. Means whose
/// confidence intervals do not overlap are `distinct`.
pub fn difference(a: &[RankingRow], b: &[RankingRow]) -> Columns {
    let mut rows = Vec::new();
    for row in a {
        let same = |other: &&RankingRow| {
            (&row.device, &row.variant, &row.scheduler, &row.completion, &row.via)
                == (&other.device, &other.variant, &other.scheduler, &other.completion, &other.via)
        };
        let Some(other) = b.iter().find(same) else { continue };
        for (metric, first) in &row.metrics {
            if let Some(second) = other.metrics.get(metric) {
                rows.push((row, metric, first, second));
            }
        }
    }
    let distinct = |a: &Estimate, b: &Estimate| a.ci95.zip(b.ci95).is_some_and(|(a, b)| a[1] < b[0] || b[1] < a[0]);
    let mut c = Columns::default();
    c.text("device", rows.iter().map(|(row, ..)| row.device.clone()))
        .text("scheduler", rows.iter().map(|(row, ..)| row.scheduler.clone()))
        .text("completion", rows.iter().map(|(row, ..)| row.completion.clone()))
        .text("metric", rows.iter().map(|(_, metric, ..)| (*metric).clone()))
        .real("a", rows.iter().map(|(_, _, a, _)| a.mean.unwrap_or(f64::NAN)))
        .real("b", rows.iter().map(|(_, _, _, b)| b.mean.unwrap_or(f64::NAN)))
        .real("ratio", rows.iter().map(|(_, _, a, b)| b.mean.zip(a.mean).map_or(f64::NAN, |(b, a)| b / a)))
        .whole("distinct", rows.iter().map(|(_, _, a, b)| u64::from(distinct(a, b))));
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
