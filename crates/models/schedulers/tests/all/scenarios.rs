//! Runs every text scenario beside this file.

use std::path::Path;

use dumbwaiter_schedulers::Choice;
use dumbwaiter_testkit::scenario;

fn run(file: &str, at_least: usize) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios").join(file);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
    let make = |name: &str, setup| Ok(Choice::parse(name).map_err(|why| why.to_string())?.build(setup));
    match scenario::run(&text, &make) {
        Ok(ran) => assert!(ran >= at_least, "{file}: only {ran} of at least {at_least} were run"),
        Err(why) => panic!("{file}\n{why}"),
    }
}

#[test]
fn deadline() {
    run("deadline.txt", 60);
}

#[test]
fn kyber() {
    run("kyber.txt", 15);
}

#[test]
fn none() {
    run("none.txt", 10);
}

#[test]
fn noop() {
    run("noop.txt", 9);
}

#[test]
fn block_layer() {
    run("block_layer.txt", 70);
}

#[test]
fn cfq() {
    run("cfq.txt", 16);
}
