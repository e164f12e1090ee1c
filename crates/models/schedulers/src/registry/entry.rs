//! An entry of the registry.

use dumbwaiter_block::Tunable;

use super::error::ChoiceError;
use super::factory::Factory;
use super::searched::{Searched, searched};
use super::setting::{Parameter, ParameterKind, Settings};

/// One scheduler.
pub struct Entry {
    /// Its name, as users type it.
    pub name: &'static str,
    /// Its policy, in one line.
    pub summary: &'static str,
    /// The paper or the Linux releases that it follows.
    pub source: &'static str,
    /// Settings that are numbers; they can also be changed while it runs. Defaults are those of its first version.
    pub tunables: &'static [Tunable],
    /// Settings that are words, releases or files; they are chosen when it is built.
    pub parameters: &'static [Parameter],
    /// Its manual, in Markdown.
    pub manual: &'static str,
    /// Makes its factory from words and files. It fails where a value or a file's content cannot be used.
    pub make: fn(&Settings) -> Result<Factory, ChoiceError>,
}

impl Entry {
    /// The settings that `tune` searches, with the values that it tries; empty where no setting matters enough.
    pub fn searched(&self) -> &'static [Searched] {
        searched(self.name)
    }

    /// The parameter that chooses a version, if it has versions.
    pub fn version(&self) -> Option<&'static Parameter> {
        self.parameters.iter().find(|p| matches!(p.kind, ParameterKind::Word(_) | ParameterKind::Release(_)))
    }

    /// Its versions, the default first; empty if it has only one.
    pub fn versions(&self) -> &'static [&'static str] {
        self.version().map_or(&[], |p| p.kind.names())
    }

    /// Linux releases at which its behaviour changed, the default first; empty if it follows only one.
    pub fn kernels(&self) -> &'static [&'static str] {
        self.version().filter(|p| matches!(p.kind, ParameterKind::Release(_))).map_or(&[], |p| p.kind.names())
    }
}
