//! The answer for each row: measured beside predicted.

use dumbwaiter_advise::DriveClass;
use serde::Serialize;

use super::case::{Case, Clipped, Figures, MeasuredRow, Part};
use super::kind::LoadKind;

/// A row of the table with what the simulator says of it. Ratios are predicted by measured; what is not known is left out of JSON as `null`.
#[derive(Clone, Debug, Serialize)]
pub struct MeasuredAgainst {
    /// The figure of a study, or the drive.
    pub figure: String,
    /// What varies in it.
    pub condition: String,
    /// The scheduler, as the table names it.
    pub scheduler: String,
    /// The job.
    pub role: String,
    /// A sum of jobs, which no summary counts.
    pub total: bool,
    /// Kind of the load.
    pub load: LoadKind,
    /// Drives that were measured.
    pub devices: u32,
    /// The model that stood for each.
    pub device: Option<String>,
    /// Its class.
    pub class: Option<DriveClass>,
    /// File of the row.
    pub file: String,
    /// Its first line, from 1; in a result of fio the number of the job.
    pub line: u64,
    /// Measured and simulated figures, and their ratios.
    #[serde(flatten)]
    pub figures: Compared,
    /// Percentiles of which the measurement knows only that they are at least this.
    pub clipped: Clipped,
    /// Virtual time that was measured, s.
    pub seconds: Option<f64>,
    /// What the run leaves out.
    pub note: Option<String>,
    /// Why there is no prediction.
    pub reason: Option<String>,
}

macro_rules! compared {
    ($($field:ident, $measured:ident, $predicted:ident, $ratio:ident;)+) => {
        /// Measured and predicted figures, each with its ratio.
        #[derive(Clone, Debug, Default, PartialEq, Serialize)]
        #[expect(missing_docs, reason = "each is a figure of the same name, measured, predicted, and their ratio")]
        pub struct Compared {
            $(pub $measured: Option<f64>, pub $predicted: Option<f64>, pub $ratio: Option<f64>,)+
        }

        impl Compared {
            /// The figures of a row beside those of its run.
            pub(super) fn of(measured: Figures, predicted: Figures) -> Compared {
                Compared {
                    $($measured: measured.$field, $predicted: predicted.$field,
                      $ratio: ratio(predicted.$field, measured.$field),)+
                }
            }
        }
    };
}

compared! {
    iops, iops_measured, iops_predicted, iops_ratio;
    mb_s, mb_s_measured, mb_s_predicted, mb_s_ratio;
    mean_us, mean_us_measured, mean_us_predicted, mean_ratio;
    p50_us, p50_us_measured, p50_us_predicted, p50_ratio;
    p95_us, p95_us_measured, p95_us_predicted, p95_ratio;
    p99_us, p99_us_measured, p99_us_predicted, p99_ratio;
    cpu_us, cpu_us_measured, cpu_us_predicted, cpu_ratio;
}

fn ratio(predicted: Option<f64>, measured: Option<f64>) -> Option<f64> {
    let (predicted, measured) = (predicted?, measured.filter(|m| *m > 0.0)?);
    Some(predicted / measured)
}

impl MeasuredAgainst {
    /// A row without a prediction yet.
    pub(super) fn of(case: &Case, row: &MeasuredRow, load: LoadKind) -> MeasuredAgainst {
        MeasuredAgainst {
            figure: case.figure.clone(),
            condition: case.condition.clone(),
            scheduler: case.scheduler.clone(),
            role: row.role.clone(),
            total: row.part == Part::Total,
            load,
            devices: case.drives.into(),
            device: None,
            class: None,
            file: row.path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default(),
            line: row.line,
            figures: Compared::of(row.figures, Figures::default()),
            clipped: row.clipped,
            seconds: None,
            note: case.note.clone(),
            reason: None,
        }
    }

    /// Was it run?
    pub fn was_run(&self) -> bool {
        self.reason.is_none()
    }
}
