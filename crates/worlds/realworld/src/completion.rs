//! Which completion methods a device can do.

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use crate::drive::{CompletionMode, Options, Sleep, Target};
use dumbwaiter_scenario::Completion;

use crate::lock::lock;

/// How a device does a completion method.
#[derive(Clone, Debug)]
pub(crate) struct Method {
    /// How the engine finds completions.
    pub(crate) mode: CompletionMode,
    /// A kernel thread submits.
    pub(crate) sqpoll: bool,
    /// Remarks.
    pub(crate) note: Option<&'static str>,
}

type Known = Vec<(Completion, Result<Method, String>)>;

/// The methods of a device. Each is tried once, by reading a block, when it is first asked for.
pub(crate) struct Methods {
    path: PathBuf,
    options: Options,
    sqpoll_by_interrupts: bool,
    known: Mutex<Known>,
}

const SQPOLL_BY_INTERRUPTS: &str = "completion sqpoll: a thread of the kernel submits, and interrupts tell what is done, since nothing is there to be polled";

impl Methods {
    pub(crate) fn new(path: &Path, options: &Options, sqpoll_by_interrupts: bool) -> Methods {
        // Only to read: whether it can be polled does not depend on the rest.
        let options = Options { direct: options.direct, ..Options::default() };
        Methods { path: path.to_owned(), options, sqpoll_by_interrupts, known: Mutex::default() }
    }

    /// How `asked` is done, or why it cannot be.
    pub(crate) fn get(&self, asked: Completion) -> Result<Method, String> {
        let mut known = lock(&self.known);
        if let Some((_, method)) = known.iter().find(|(completion, _)| *completion == asked) {
            return method.clone();
        }
        let method = self.find(asked);
        known.push((asked, method.clone()));
        method
    }

    fn find(&self, asked: Completion) -> Result<Method, String> {
        let target = Target::open(&self.path, &self.options).map_err(|e| e.to_string())?;
        let can = |mode| match target.check(mode) {
            Ok(_) => Ok(Method { mode, sqpoll: false, note: None }),
            Err(e) => Err(e.to_string()),
        };
        match asked {
            Completion::Interrupt => can(CompletionMode::Interrupt),
            Completion::Poll => can(CompletionMode::Poll),
            Completion::Hybrid => can(CompletionMode::Hybrid(Sleep::Auto)),
            Completion::HybridFixed(time) => can(CompletionMode::Hybrid(Sleep::Fixed(time))),
            Completion::Sqpoll => match can(CompletionMode::Poll) {
                Ok(method) => Ok(Method { sqpoll: true, ..method }),
                Err(why) if !self.sqpoll_by_interrupts => Err(why),
                Err(_) => {
                    let method = can(CompletionMode::Interrupt)?;
                    Ok(Method { sqpoll: true, note: Some(SQPOLL_BY_INTERRUPTS), ..method })
                }
            },
        }
    }
}
