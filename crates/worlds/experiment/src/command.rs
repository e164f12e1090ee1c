//! The command that makes a comparison again: what determines the results, and nothing else, so that equal comparisons have equal
//! commands.

use std::path::PathBuf;

use dumbwaiter_advise::Goal;
use dumbwaiter_block::Nanos;

use crate::input::Overrides;
use crate::quoted::quoted;

impl Overrides {
    /// The command line of `compare` with these settings.
    pub(crate) fn command(&self, paths: &[PathBuf], goal: Goal) -> String {
        let mut words = vec!["dumbwaiter".to_owned(), "compare".to_owned()];
        words.extend(paths.iter().map(|path| path.display().to_string()));
        let trace = &self.trace;
        let list = |items: &[String]| (!items.is_empty()).then(|| items.join(","));
        let time = |time: Nanos| match time.0 {
            ns if ns % 1_000_000_000 == 0 => format!("{}s", ns / 1_000_000_000),
            ns if ns % 1_000_000 == 0 => format!("{}ms", ns / 1_000_000),
            ns => format!("{ns}ns"),
        };
        let options = [
            ("--device", list(&self.devices)),
            ("--schedulers", self.schedulers.clone()),
            ("--completion", list(&self.completion)),
            ("--queue-depth", self.queue_depth.map(|n| n.to_string())),
            ("--nr-requests", self.nr_requests.map(|n| n.to_string())),
            ("--read-ahead-kb", self.read_ahead_kb.map(|n| n.to_string())),
            ("--host", self.host.clone()),
            ("--cpus", self.cpus.map(|n| n.to_string())),
            ("--deadline", self.deadline.map(time)),
            ("--duration", self.duration.map(time)),
            ("--warmup", self.warmup.map(time)),
            ("--limit", self.limit.map(|n| n.to_string())),
            ("--replicates", self.replicates.map(|n| n.to_string())),
            ("--seed", self.seed.map(|n| n.to_string())),
            ("--until", self.until.map(|until| format!("{}%", until.within * 100.0))),
            ("--rate", self.rate.map(|rate| format!("{}%", (rate * 1e4).round() / 100.0))),
            ("--incumbent", self.incumbent.clone()),
            ("--goal", (goal != Goal::default()).then(|| goal.name().to_owned())),
            ("--format", trace.format.clone()),
            ("--columns", trace.columns.clone()),
            ("--speed", trace.speed.map(|n| n.to_string())),
            ("--depth", trace.depth.map(|n| n.to_string())),
            ("--closed-per-task", trace.closed_per_task.then(String::new)),
            ("--fit", trace.fit.clone()),
            ("--arrival", trace.arrival.clone()),
            ("--assume-bytes", trace.assume_bytes.map(|n| n.to_string())),
        ];
        let world = self.world_options.iter().map(|(name, value)| (*name, Some(value.clone())));
        for (name, value) in options.into_iter().chain(world) {
            let Some(value) = value else { continue };
            words.push(name.to_owned());
            words.extend(Some(value).filter(|value| !value.is_empty()));
        }
        words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
    }
}

/// A command with another value of an option, which is added where it is not there.
pub(crate) fn with_option(command: &str, name: &str, value: &str) -> String {
    let (option, value) = (format!(" {name} "), quoted(value));
    match command.split_once(&option) {
        Some((before, after)) => {
            let rest = after.find(" --").map_or("", |end| &after[end..]);
            format!("{before}{option}{value}{rest}")
        }
        None => format!("{command}{option}{value}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_has_what_determines_the_results() {
        let paths = [PathBuf::from("my load.toml")];
        let overrides = Overrides { replicates: Some(2), duration: Some(Nanos::from_ms(200)), ..Overrides::default() };
        let command = overrides.command(&paths, Goal::Latency);
        assert_eq!(command, "dumbwaiter compare 'my load.toml' --duration 200ms --replicates 2 --goal latency");
        assert_eq!(Overrides::default().command(&[], Goal::default()), "dumbwaiter compare");
        let world_options = vec![("--on", "my disk".to_owned()), ("--destroy", "my disk".to_owned())];
        let on_a_drive = Overrides { world_options, ..Overrides::default() };
        assert_eq!(on_a_drive.command(&[], Goal::default()), "dumbwaiter compare --on 'my disk' --destroy 'my disk'");
        assert_eq!(with_option(&command, "--replicates", "5"), command.replace("replicates 2", "replicates 5"));
        assert_eq!(with_option("dumbwaiter compare a", "--schedulers", "b,c"), "dumbwaiter compare a --schedulers b,c");
        assert_eq!(quoted("it's"), "'it'\\''s'");
    }
}
