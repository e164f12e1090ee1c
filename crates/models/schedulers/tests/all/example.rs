//! The scheduler that `docs/writing-a-scheduler.md` shows: it compiles, it works, and the page shows what is here.

use std::path::Path;

// The page writes paths as a file of the crate does.
use dumbwaiter_schedulers::registry::factory;
use dumbwaiter_schedulers::{Choice, Entry};
use dumbwaiter_testkit::scenario;

#[expect(unreachable_pub, reason = "it is written as a file of the crate")]
mod reads_first;

static ENTRY: Entry = include!("example/entry.rs");

#[test]
fn it_works_as_the_page_says() {
    let make = |name: &str, setup| {
        let settings = name.strip_prefix("reads-first").ok_or("another scheduler")?.trim_start_matches(':');
        Ok(Choice::of(&ENTRY, settings, name).map_err(|why| why.to_string())?.build(setup))
    };
    assert_eq!(scenario::run(include_str!("example/scenario.txt"), &make), Ok(1));
    assert!(Choice::of(&ENTRY, "reads_per_write=0", "reads-first").is_err());
}

/// The page's blocks are the files beside this test. After a change of either, make them the same.
#[test]
fn the_page_shows_what_is_compiled() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/writing-a-scheduler.md");
    let page = std::fs::read_to_string(&page).unwrap_or_else(|why| panic!("{}: {why}", page.display()));
    let blocks: Vec<String> = page.split("```").skip(1).step_by(2).map(unindented).collect();
    for (language, file) in [
        ("rust", include_str!("example/reads_first.rs")),
        ("rust", include_str!("example/entry.rs")),
        ("text", include_str!("example/scenario.txt")),
    ] {
        let shown = blocks.iter().any(|block| block.strip_prefix(language).is_some_and(|b| b.trim() == file.trim()));
        assert!(shown, "docs/writing-a-scheduler.md does not show, as a block of {language}:\n{file}");
    }
}

/// A block of a list is indented by three spaces.
fn unindented(block: &str) -> String {
    let lines =
        block.lines().map(|line| line.strip_prefix("   ").filter(|_| block.contains("\n   Entry")).unwrap_or(line));
    lines.collect::<Vec<_>>().join("\n")
}
