//! What a job file may refer to outside itself.

/// What a job file may refer to.
pub struct Outside<'a> {
    /// The value of an environment variable.
    pub variable: &'a dyn Fn(&str) -> Option<String>,
    /// The name and text of a file that the first names as the second (`include`), or why it cannot be read.
    pub file: ReadFile<'a>,
}

/// Name and text of a file that the first names as the second.
pub type ReadFile<'a> = &'a dyn Fn(&str, &str) -> Result<(String, String), String>;

impl Outside<'static> {
    /// Nothing: no variables and no other files.
    pub const NOTHING: Outside<'static> =
        Outside { variable: &|_| None, file: &|_, name| Err(format!("{name}: no such file")) };
}
