//! The table of crates in docs/architecture.md against their manifests.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Third column of crates that may know all others.
const KNOWS_ALL: &str = "all floors";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A row of the table.
struct Row {
    /// The crate's folder below `crates/`.
    folder: String,
    /// Names of crates without their prefix; `None` for all.
    knows: Option<BTreeSet<String>>,
}

/// The words between backticks.
fn quoted(cell: &str) -> BTreeSet<String> {
    cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// The table under "The crates", without the Python package, which stands beside `crates/`.
fn table() -> Vec<Row> {
    let page = std::fs::read_to_string(root().join("docs/architecture.md")).unwrap();
    let (_, section) = page.split_once("\n## The crates\n").expect("a section on the crates");
    let section = section.split("\n## ").next().unwrap();
    let mut rows = Vec::new();
    for line in section.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        assert_eq!(cells.len(), 3, "{line}");
        if cells[0].contains("beside") {
            continue;
        }
        let knows = (cells[2] != KNOWS_ALL).then(|| quoted(cells[2]));
        rows.push(Row { folder: cells[0].trim_matches('`').to_owned(), knows });
    }
    rows
}

/// The crates below `folder`: a folder with a manifest is one.
fn find_crates(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.join("Cargo.toml").is_file() {
            found.push(path);
        } else if path.is_dir() {
            find_crates(&path, found);
        }
    }
}

/// The crates of this project that each crate's library depends on, by folder.
fn manifests() -> BTreeMap<String, BTreeSet<String>> {
    let root = root().join("crates");
    let mut folders = Vec::new();
    find_crates(&root, &mut folders);
    let mut found = BTreeMap::new();
    for folder in folders {
        let text = std::fs::read_to_string(folder.join("Cargo.toml")).unwrap();
        let manifest: toml::Table = text.parse().unwrap();
        let short = folder.strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
        let name = manifest["package"]["name"].as_str().unwrap();
        assert_eq!(name.trim_start_matches("dumbwaiter-"), if short == "cli" { "dumbwaiter" } else { name_of(&short) });
        let dependencies = manifest["dependencies"].as_table().unwrap().keys();
        found.insert(
            short,
            dependencies.filter_map(|name| name.strip_prefix("dumbwaiter-")).map(str::to_owned).collect(),
        );
    }
    found
}

/// The last part of a crate's folder, which is its name.
fn name_of(folder: &str) -> &str {
    folder.rsplit('/').next().unwrap()
}

#[test]
fn the_table_of_crates_has_each_with_its_folder_and_what_it_knows() {
    let (rows, manifests) = (table(), manifests());
    let in_table: BTreeSet<&String> = rows.iter().map(|row| &row.folder).collect();
    assert_eq!(in_table, manifests.keys().collect(), "the table's crates, and those below crates/");
    let core: BTreeSet<&str> = rows.iter().filter_map(|row| row.folder.strip_prefix("core/")).collect();
    for Row { folder, knows } in &rows {
        let Some(knows) = knows else { continue };
        let dependencies: BTreeSet<String> =
            manifests[folder].iter().filter(|name| !core.contains(name.as_str())).cloned().collect();
        assert_eq!(knows, &dependencies, "{folder}: what the table says that it knows, and its manifest");
    }
}

#[test]
fn a_crate_knows_only_crates_above_it_and_a_floor_stands_together() {
    let (rows, manifests) = (table(), manifests());
    let mut above: Vec<&str> = Vec::new();
    let mut floors: Vec<&str> = Vec::new();
    for Row { folder, .. } in &rows {
        for name in &manifests[folder] {
            assert!(above.contains(&name.as_str()), "{folder} depends on {name}, whose row is below");
        }
        above.push(name_of(folder));
        if let Some((floor, _)) = folder.split_once('/')
            && floors.last() != Some(&floor)
        {
            assert!(!floors.contains(&floor), "{folder}: the rows of {floor} do not stand together");
            floors.push(floor);
        }
    }
}

/// Pages and comments name files of crates by their whole path.
#[test]
fn files_of_crates_that_pages_name_are_there() {
    let mut pages = vec![root().join("README.md"), root().join("CONTRIBUTING.md")];
    pages.extend(std::fs::read_dir(root().join("docs")).unwrap().map(|entry| entry.unwrap().path()));
    for page in pages.iter().filter(|path| path.extension().is_some_and(|e| e == "md")) {
        let text = std::fs::read_to_string(page).unwrap();
        for (at, _) in text.match_indices("crates/") {
            let path: String =
                text[at..].chars().take_while(|c| c.is_ascii_alphanumeric() || "/_-.".contains(*c)).collect();
            let path = path.trim_end_matches('.');
            // Files that the page has its reader write.
            if ["reads_first.rs", "reads_first.md", "my-drive.toml"].iter().any(|new| path.ends_with(new)) {
                continue;
            }
            assert!(root().join(path).exists(), "{}: there is no {path}", page.display());
        }
    }
}
