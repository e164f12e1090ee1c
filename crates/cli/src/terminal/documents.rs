//! The document of a comparison: as text on stdout, and in files.

use std::io;
use std::path::Path;

use dumbwaiter_advise::Document;
use dumbwaiter_report::{Format, document_text, write_html, write_parquet};

use crate::terminal::messages::{print, screen};
use crate::terminal::outputs::{check_files, check_folder, is_stdout, write_text};

/// Where a document goes.
#[derive(Clone, Copy, Debug, Default)]
pub struct DocumentOutputs<'a> {
    /// File of the JSON; `-` is stdout, which then gets no text.
    pub json: Option<&'a Path>,
    /// File of the report.
    pub html: Option<&'a Path>,
    /// Folder of the Parquet tables.
    pub parquet: Option<&'a Path>,
    /// Print tables of any width.
    pub wide: bool,
}

impl DocumentOutputs<'_> {
    /// Refuses files that cannot be written, are one of `inputs` or each other, before long work starts.
    ///
    /// # Errors
    /// The first such file, and what is expected.
    pub fn check(&self, inputs: &[&Path]) -> io::Result<()> {
        check_files(self.json, self.html, inputs)?;
        self.parquet.map_or(Ok(()), check_folder)
    }

    /// Writes the files, then prints the document in `format`.
    ///
    /// # Errors
    /// The first file that cannot be written, after all were tried; or stdout cannot be written.
    pub fn write(&self, document: &Document, format: Format) -> io::Result<()> {
        let (json_to_stdout, json_file) = match self.json {
            Some(path) if is_stdout(path) => (true, None),
            path => (false, path),
        };
        // Files first: output on stdout is lost if its reader is gone. Of them the one that the others can be made from, in case
        // there is no room for all.
        let files = [
            json_file.map(|path| (write_text(path, &document.to_json()), path, "JSON")),
            self.parquet.map(|dir| (write_parquet(document, dir).map_err(io::Error::other), dir, "Parquet tables")),
            self.html.map(|path| (write_html(document, path).map_err(io::Error::other), path, "report")),
        ];
        let printed = if json_to_stdout {
            document.notes.iter().for_each(|note| crate::tell!("note: {note}"));
            print(&document.to_json())
        } else {
            print(&document_text(document, format, screen(self.wide)))
        };
        let mut failed = Ok(());
        for (written, path, what) in files.into_iter().flatten() {
            match written {
                Ok(()) => crate::tell!("{what} written to {}", path.display()),
                Err(error) if failed.is_ok() => failed = Err(error),
                Err(error) => crate::tell!("{error}"),
            }
        }
        failed.and(printed)
    }
}
