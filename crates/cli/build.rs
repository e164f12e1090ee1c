//! Puts the commit behind the version, as in `0.1.0 (1a2b3c4d5e6f)`; `1a2b3c4d5e6f-dirty` if sources have been changed since.
//!
//! In this order: the variable `DUMBWAITER_COMMIT` (for who packages it), the note that `cargo package` leaves in a crate,
//! git. Where none knows it the version stands alone. Only release builds ask git: others would be built anew after each
//! commit.

use std::path::Path;
use std::process::Command;
use std::{env, fs};

fn main() {
    println!("cargo::rerun-if-env-changed=DUMBWAITER_COMMIT");
    let version = env::var("CARGO_PKG_VERSION").expect("cargo sets it");
    let checked_out = || checked_out().map(|commit| (commit, if is_changed() { "-dirty" } else { "" }));
    let commit = given().or_else(packaged).map(|commit| (commit, "")).or_else(checked_out);
    let version = match commit.filter(|(commit, _)| is_hash(commit)) {
        Some((commit, changed)) => format!("{version} ({}{changed})", &commit[..commit.len().min(12)]),
        None => version,
    };
    println!("cargo::rustc-env=DUMBWAITER_VERSION={version}");
}

fn is_hash(text: &str) -> bool {
    text.len() >= 7 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn given() -> Option<String> {
    env::var("DUMBWAITER_COMMIT").ok()
}

/// `cargo package` writes the commit to a file in the crate: `{"git": {"sha1": "…"}, …}`.
fn packaged() -> Option<String> {
    let note = ".cargo_vcs_info.json";
    println!("cargo::rerun-if-changed={}", if Path::new(note).exists() { note } else { "build.rs" });
    let text = fs::read_to_string(note).ok()?;
    let (_, after) = text.split_once("\"sha1\"")?;
    after.split('"').nth(1).map(str::to_owned)
}

fn checked_out() -> Option<String> {
    // A crate inside another project's repository is none of its commits.
    if env::var("PROFILE").as_deref() != Ok("release") || !Path::new("../../.git").exists() {
        return None;
    }
    // HEAD's log has a line more after each commit, checkout and merge.
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"]).filter(|log| Path::new(log).exists()) {
        println!("cargo::rerun-if-changed={log}");
    }
    git(&["rev-parse", "HEAD"])
}

/// Have sources been changed since the commit?
fn is_changed() -> bool {
    const SOURCES: [&str; 3] = ["../../crates", "../../Cargo.toml", "../../Cargo.lock"];
    SOURCES.iter().for_each(|source| println!("cargo::rerun-if-changed={source}"));
    git(&[&["status", "--porcelain", "--"][..], &SOURCES].concat()).is_some_and(|changes| !changes.is_empty())
}

fn git(args: &[&str]) -> Option<String> {
    let out = Command::new("git").args(args).output().ok().filter(|out| out.status.success())?;
    Some(String::from_utf8(out.stdout).ok()?.trim().to_owned())
}
