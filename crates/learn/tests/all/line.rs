//! The line over size.

use dumbwaiter_block::{Nanos, Op};
use dumbwaiter_learn::LatencyLine;

#[test]
fn it_finds_a_line_for_each_operation() {
    let mut line = LatencyLine::new();
    assert_eq!(line.predict(Op::Read, 4096), None);
    for blocks in (1..=64).cycle().take(4000) {
        line.push(Op::Read, blocks * 4096, Nanos::from_us(50 + 3 * u64::from(blocks)));
        line.push(Op::Write, blocks * 4096, Nanos::from_us(500));
    }
    let near = |op, bytes, us: u64| {
        let found = line.predict(op, bytes).unwrap();
        assert!(found.0.abs_diff(us * 1000) < 2_000, "{op:?} of {bytes}: {found:?}, expected {us} us");
    };
    near(Op::Read, 4096, 53);
    near(Op::Read, 128 * 4096, 434);
    near(Op::Write, 4096, 500);
}

#[test]
fn equal_sizes_give_their_mean_and_never_a_falling_line() {
    let mut line = LatencyLine::new();
    for us in [80, 120].into_iter().cycle().take(100) {
        line.push(Op::Read, 4096, Nanos::from_us(us));
    }
    assert!(line.predict(Op::Read, 1 << 20).unwrap().0.abs_diff(100_000) < 1_000);
    for blocks in (1..=8u32).cycle().take(800) {
        line.push(Op::Write, blocks * 4096, Nanos::from_us(u64::from(900 - 100 * blocks)));
    }
    assert!(line.predict(Op::Write, 1 << 30).unwrap() >= Nanos::from_us(1));
}
