//! Arguments of `learn`.

use std::path::PathBuf;

use clap::Subcommand;

#[derive(clap::Args)]
pub(crate) struct Learn {
    #[command(subcommand)]
    pub(crate) what: LearnCommand,
}

#[derive(Subcommand)]
pub(crate) enum LearnCommand {
    /// Evaluate a model on recorded runs, beside baselines
    #[command(after_help = "\
Examples:
  dumbwaiter learn eval --model shipped:classifier --data recordings
  dumbwaiter learn eval --model mine.safetensors --data recordings --runs r5 --json -")]
    Eval(LearnEval),
    /// Print a model's prediction for each request of a recorded run
    #[command(
        after_help = "Example:\n  dumbwaiter learn predict --model shipped:latency-flash --trace r1/oltp.csv.zst"
    )]
    Predict(LearnPredict),
    /// Show what a model predicts, how it was trained and how accurate it is
    #[command(after_help = "Example:\n  dumbwaiter learn show shipped:classifier")]
    Show(LearnShow),
    /// Write the rows of inputs that training uses, for other frameworks
    #[command(after_help = "\
Examples:
  dumbwaiter learn features --data recordings --task latency --out rows.parquet
  dumbwaiter learn features --data recordings --task classify --out rows.npy")]
    Features(LearnFeatures),
    /// Import a model that another program trained
    #[command(after_help = "\
Examples:
  dumbwaiter learn import forest.json --format sklearn --task latency --out mine.safetensors
  dumbwaiter learn import weights.safetensors --format safetensors --task classify --out mine.safetensors")]
    Import(LearnImport),
    /// Measure the throughput table that `adaptive` chooses by: loads under each scheduler, on device models
    #[command(after_help = "\
Examples:
  dumbwaiter learn table --device hdd:hts541010a9e662@4 --out mine.json
  dumbwaiter compare load.toml --schedulers adaptive:by=model,table=mine.json")]
    Table(LearnTable),
    /// Train a model on recorded runs (needs a build with `--features train`)
    #[command(after_help = "\
Example:
  dumbwaiter learn train --data recordings --task classify --split train=r1,r2,r3:val=r4 --seed 0 --out mine.safetensors")]
    Train(LearnTrain),
}

/// Recorded runs.
#[derive(clap::Args)]
pub(crate) struct RecordedRuns {
    /// Folder of recorded runs: REPEAT/WORKLOAD.csv.zst
    #[arg(long, value_name = "DIR")]
    pub(crate) data: PathBuf,
    /// Only these repeats
    #[arg(long, value_name = "REPEAT,…", value_delimiter = ',')]
    pub(crate) runs: Vec<String>,
}

/// The task of a model, and its inputs.
#[derive(clap::Args)]
pub(crate) struct ModelInputs {
    /// What the model does: classify, latency, positioned, ordered
    #[arg(long, value_name = "TASK")]
    pub(crate) task: String,
    /// Its feature set; by default that of the task
    #[arg(long, value_name = "SET")]
    pub(crate) features: Option<String>,
}

#[derive(clap::Args)]
pub(crate) struct LearnEval {
    /// The model: a file, or shipped:classifier, shipped:latency-flash, shipped:latency-disk
    #[arg(long, value_name = "MODEL")]
    pub(crate) model: String,
    #[command(flatten)]
    pub(crate) recorded: RecordedRuns,
    /// More models to evaluate on the same rows
    #[arg(long, value_name = "MODEL,…", value_delimiter = ',')]
    pub(crate) beside: Vec<String>,
    /// Latencies: those recorded, those of the model's device model, or whichever is like the model's
    #[arg(long, value_enum, default_value_t)]
    pub(crate) times: LearnTimes,
    /// Write as JSON; `-` is stdout
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

#[derive(Clone, Copy, Default, clap::ValueEnum)]
pub(crate) enum LearnTimes {
    /// Those recorded, if their median is within a factor of 4 of the model's; else those of its device model
    #[default]
    Fitting,
    /// Those recorded
    Recorded,
    /// Those of the device model that the model was trained on
    Served,
}

#[derive(clap::Args)]
pub(crate) struct LearnPredict {
    /// The model: a file, or shipped:NAME
    #[arg(long, value_name = "MODEL")]
    pub(crate) model: String,
    /// A recorded run
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: PathBuf,
    /// Print one JSON object per line
    #[arg(long)]
    pub(crate) json_lines: bool,
}

#[derive(clap::Args)]
pub(crate) struct LearnShow {
    /// The model: a file, or shipped:NAME
    #[arg(value_name = "MODEL")]
    pub(crate) model: String,
    /// Write as JSON; `-` is stdout
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

#[derive(clap::Args)]
pub(crate) struct LearnFeatures {
    #[command(flatten)]
    pub(crate) recorded: RecordedRuns,
    #[command(flatten)]
    pub(crate) inputs: ModelInputs,
    /// Output: NAME.parquet or NAME.npy
    #[arg(long, value_name = "FILE")]
    pub(crate) out: PathBuf,
}

#[derive(clap::Args)]
pub(crate) struct LearnImport {
    /// The other program's file
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Its format: sklearn or safetensors
    #[arg(long, value_name = "FORMAT")]
    pub(crate) format: String,
    #[command(flatten)]
    pub(crate) inputs: ModelInputs,
    /// Output file
    #[arg(long, value_name = "FILE")]
    pub(crate) out: PathBuf,
}

#[derive(clap::Args)]
pub(crate) struct LearnTable {
    /// A device model, and the requests that it may hold at once; may be given several times
    #[arg(long, value_name = "DEVICE[@DEPTH]", required = true)]
    pub(crate) device: Vec<String>,
    /// The schedulers, with settings as `candidates` of `adaptive` takes them
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', default_value = "mq-deadline,headway,bfq,kyber,none")]
    pub(crate) schedulers: Vec<String>,
    /// Runs of each load under each scheduler; cells of fewer than 5 are not used
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub(crate) replicates: u32,
    /// Runs at a time; as many as CPUs by default
    #[arg(long, value_name = "N")]
    pub(crate) jobs: Option<usize>,
    /// Output file; `-` is stdout
    #[arg(long, value_name = "FILE")]
    pub(crate) out: PathBuf,
}

#[derive(clap::Args)]
pub(crate) struct LearnTrain {
    /// Folder of recorded runs: REPEAT/WORKLOAD.csv.zst
    #[arg(long, value_name = "DIR")]
    pub(crate) data: PathBuf,
    #[command(flatten)]
    pub(crate) inputs: ModelInputs,
    /// What kind of model: network, ridge, ridge-of-request, tree, boosted
    #[arg(long, value_name = "METHOD", default_value = "network")]
    pub(crate) method: String,
    /// Repeats to train on and to validate on; by default the last one validates
    #[arg(long, value_name = "train=REPEAT,…:val=REPEAT,…")]
    pub(crate) split: Option<String>,
    /// Device model that serves the recorded requests, instead of the recorded times
    #[arg(long, value_name = "DEVICE")]
    pub(crate) device: Option<String>,
    /// Random seed
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,
    /// Output file
    #[arg(long, value_name = "FILE")]
    pub(crate) out: PathBuf,
}
