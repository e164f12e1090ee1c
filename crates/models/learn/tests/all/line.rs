//! The line over size.

use dumbwaiter_block::{Nanos, Op};
use dumbwaiter_learn::LatencyLine;

#[test]
fn it_finds_the_line_of_each_operation() {
    let mut line = LatencyLine::new();
    assert_eq!(line.predict(Op::Read, 8), None);
    for i in 0..4000u32 {
        let sectors = 8 << (i % 8);
        line.learn(Op::Read, sectors, Nanos(100_000 + 500 * sectors));
        line.learn(Op::Write, sectors, Nanos(3_000_000 + 100 * sectors));
        line.learn(Op::Discard, sectors, Nanos(20_000));
    }
    for (op, sectors, expected) in
        [(Op::Read, 256, 228_000), (Op::Write, 1000, 3_100_000), (Op::Discard, 8, 20_000), (Op::Discard, 4096, 20_000)]
    {
        let got = line.predict(op, sectors).unwrap().0;
        assert!(got.abs_diff(expected) < expected / 50 + 1100, "{op} {sectors}: {got}");
    }
    assert_eq!(line.predict(Op::WriteZeroes, 8), line.predict(Op::Read, 8), "never seen");
}

#[test]
fn one_size_gives_its_mean_and_no_slope() {
    let mut line = LatencyLine::new();
    for i in 0..100 {
        line.learn(Op::Read, 8, Nanos::from_ms(if i % 2 == 0 { 4 } else { 8 }));
    }
    assert!(line.predict(Op::Read, 8).unwrap().0.abs_diff(6_000_000) < 100_000);
    assert_eq!(line.slope(Op::Read), 0);
}

#[test]
fn a_line_never_falls_with_size() {
    let mut line = LatencyLine::new();
    for blocks in (1..=8u64).cycle().take(800) {
        line.learn(Op::Write, 8 * blocks, Nanos::from_us(900 - 100 * blocks));
    }
    assert!(line.predict(Op::Write, 1 << 20).unwrap() >= line.predict(Op::Write, 8).unwrap());
}

#[test]
fn the_greatest_numbers_do_not_overflow() {
    let mut line = LatencyLine::new();
    for i in 0..10_000u32 {
        let (sectors, latency) = if i % 2 == 0 { (u64::MAX, u64::MAX) } else { (0, 0) };
        line.learn(Op::Write, sectors, Nanos(latency));
    }
    line.predict(Op::Write, u64::MAX);
}
