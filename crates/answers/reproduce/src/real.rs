//! The papers and figures that can run on a real file or device, and through which block layer.

use dumbwaiter_experiment::Stack;

use crate::show::Finished;
use crate::{Effort, Error, Figure, PAPERS, Paper};

/// How a paper runs on a real device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Real {
    /// Not at all.
    No,
    /// All of its figures, under the kernel's own schedulers.
    Kernel,
    /// Figures of these names, with our schedulers in our engine.
    Engine(&'static [&'static str]),
}

impl Possible {
    /// Runs them until one is ended by the device or by a signal: that is the last one.
    ///
    /// # Errors
    /// As [`Figure::reproduce`].
    pub fn reproduce(&self, effort: &Effort<'_>) -> Result<Vec<Finished>, Error> {
        let mut finished: Vec<Finished> = Vec::new();
        for (paper, figure) in &self.figures {
            finished.push((paper, figure, figure.reproduce(paper.name, effort)?));
            if effort.failure().is_some() || effort.control.cancelled() {
                break;
            }
        }
        Ok(finished)
    }
}

impl Real {
    /// The block layer that `figure` runs through; `None` if it runs on models only.
    fn stack(self, figure: &str) -> Option<Stack> {
        match self {
            Real::Kernel => Some(Stack::Kernel),
            Real::Engine(figures) if figures.contains(&figure) => Some(Stack::Engine),
            Real::No | Real::Engine(_) => None,
        }
    }
}

/// Figures that one block layer can run on a real device.
pub struct Possible {
    /// The block layer.
    pub stack: Stack,
    /// The figures.
    pub figures: Vec<(&'static Paper, &'static Figure)>,
    /// Figures left out of papers that run in part, in one line.
    pub left_out: Option<String>,
}

/// Which of `wanted` run on a real device. Of a whole paper, the figures that do.
///
/// # Errors
/// A paper or figure that runs on models only; figures of two block layers.
pub fn possible(wanted: &[(&'static Paper, &'static Figure)]) -> Result<Possible, Error> {
    let stack = |(paper, figure): &(&Paper, &Figure)| paper.real.stack(figure.name);
    let mut left_out: Vec<String> = Vec::new();
    for (paper, figure) in wanted.iter().filter(|w| stack(w).is_none()) {
        if !wanted.iter().any(|w| w.0.name == paper.name && stack(w).is_some()) {
            let expected = can().join(", ");
            let what =
                if paper.real == Real::No { paper.name.into() } else { format!("{}:{}", paper.name, figure.name) };
            return Err(Error::Case(format!(
                "{what} can only run on models of its own drives; expected one of {expected}"
            )));
        }
        left_out.push(format!("{}:{}", paper.name, figure.name));
    }
    let figures: Vec<_> = wanted.iter().copied().filter(|w| stack(w).is_some()).collect();
    let stacks: Vec<Stack> = figures.iter().filter_map(stack).collect();
    let first = stacks.first().copied().unwrap_or(Stack::Kernel);
    if let Some(other) = stacks.iter().position(|stack| *stack != first) {
        let name = |(paper, figure): (&Paper, &Figure)| format!("{}:{}", paper.name, figure.name);
        return Err(Error::Case(format!(
            "{} and {} do not run through the same block layer (kernel and engine); expected one of them at a time",
            name(figures[0]),
            name(figures[other])
        )));
    }
    let left_out = (!left_out.is_empty()).then(|| format!("left out, on models only: {}", left_out.join(", ")));
    Ok(Possible { stack: first, figures, left_out })
}

/// Papers and figures that run on a real device, as the command line names them.
fn can() -> Vec<String> {
    let names = |paper: &Paper| match paper.real {
        Real::No => Vec::new(),
        Real::Kernel => vec![paper.name.to_owned()],
        Real::Engine(figures) => figures.iter().map(|figure| format!("{}:{figure}", paper.name)).collect(),
    };
    PAPERS.iter().flat_map(names).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::find_all;

    fn of(names: &[&str]) -> Result<Possible, String> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        possible(&find_all(&names).unwrap()).map_err(|error| error.to_string())
    }

    #[test]
    fn of_a_paper_what_runs_on_a_device_is_run_and_the_rest_is_named() {
        let all = of(&["kml-2025"]).unwrap();
        assert_eq!(all.stack, Stack::Engine);
        assert_eq!(all.figures.iter().map(|(_, figure)| figure.name).collect::<Vec<_>>(), ["phases"]);
        assert!(all.left_out.is_some_and(|line| line.contains("kml-2025:figure-2")));
        let kernel = of(&["ull-2023", "poll-2022:table-1"]).unwrap();
        assert_eq!((kernel.stack, kernel.left_out), (Stack::Kernel, None));
        for (names, part) in [
            (&["kml-2025:steady"][..], "kml-2025:steady can only run on models"),
            (&["bfq-2015"], "expected one of ull-2023, poll-2022, kml-2025:phases"),
            (&["ull-2023:table-1", "kml-2025:phases"], "one of them at a time"),
        ] {
            let Err(error) = of(names) else { panic!("{names:?} is run") };
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn figures_that_run_in_the_engine_exist() {
        for paper in PAPERS {
            let Real::Engine(figures) = paper.real else { continue };
            assert!(figures.iter().all(|name| paper.figures.iter().any(|f| f.name == *name)), "{}", paper.name);
        }
    }
}
