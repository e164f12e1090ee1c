//! Outputs that would overwrite an input or each other.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Are they names of one file, whether it is there or not?
pub fn same_file(a: &Path, b: &Path) -> bool {
    let id = |path: &Path| std::fs::metadata(path).map(|m| (m.dev(), m.ino())).ok();
    let place = |path: &Path| Some((std::fs::canonicalize(folder_of(path)).ok()?, path.file_name()?.to_owned()));
    match (id(a), id(b)) {
        (Some(a), Some(b)) => a == b,
        (None, None) => place(a).is_some() && place(a) == place(b),
        _ => false,
    }
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Refuses to write over what is read or measured, and to write two things into one file.
///
/// # Errors
/// One line that names the output, the input and what is expected.
pub fn check_distinct(outputs: &[&Path], inputs: &[&Path]) -> Result<(), String> {
    for (i, output) in outputs.iter().enumerate() {
        if let Some(input) = inputs.iter().find(|input| same_file(output, input)) {
            return Err(format!(
                "cannot write {}: it is the input {}; expected another file",
                output.display(),
                input.display()
            ));
        }
        let regular = std::fs::metadata(output).map_or(true, |m| m.is_file());
        if regular && outputs[..i].iter().any(|other| same_file(output, other)) {
            return Err(format!(
                "cannot write two outputs to {}; expected a different file for each",
                output.display()
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_output_may_be_neither_an_input_nor_another_output() {
        let dir = tempfile::tempdir().unwrap();
        let [a, b, link] = ["a", "b", "link"].map(|name| dir.path().join(name));
        std::fs::write(&a, "x").unwrap();
        std::os::unix::fs::symlink(&a, &link).unwrap();
        assert!(check_distinct(&[&b], &[&a]).is_ok());
        assert!(check_distinct(&[&link], &[&a]).unwrap_err().contains("it is the input"));
        // Also where neither is there yet, under another spelling.
        let again = dir.path().join("../").join(dir.path().file_name().unwrap()).join("b");
        assert!(check_distinct(&[&b, &again], &[]).unwrap_err().contains("two outputs"));
        // A device takes any number of outputs.
        assert!(check_distinct(&[Path::new("/dev/null"), Path::new("/dev/null")], &[]).is_ok());
    }
}
