//! Rings against the driver's side of this crate, without a server: what is offered comes once, what is given back is seen once.

use dumbwaiter_protocols::vhost_user::inflight::Inflight;
use dumbwaiter_protocols::vhost_user::ring::{Broken, RingAddresses};
use dumbwaiter_protocols::vhost_user::{Memory, Ring};
use proptest::prelude::*;

use crate::vhost_user::guest::{BASE, Guest};

const SIZE: u16 = 8;
const USER: u64 = 0x7000_0000;
const ADDRESSES: RingAddresses = RingAddresses { descriptors: USER, available: USER + 0x200, used: USER + 0x400 };

/// The driver's side.
struct Driver {
    guest: Guest,
    offered: u16,
    seen: u16,
}

impl Driver {
    fn new() -> Driver {
        Driver { guest: Guest::new(), offered: 0, seen: 0 }
    }

    fn word(&self, offset: u64) -> u16 {
        let mut bytes = [0; 2];
        self.guest.memory.read(self.guest.memory.locate(BASE + offset, 2).unwrap().0, &mut bytes);
        u16::from_le_bytes(bytes)
    }

    fn offer(&mut self, head: u16) {
        self.guest.write(BASE + 0x204 + 2 * u64::from(self.offered % SIZE), &head.to_le_bytes());
        self.offered = self.offered.wrapping_add(1);
        self.guest.write(BASE + 0x202, &self.offered.to_le_bytes());
    }

    fn reap(&mut self) -> Vec<u16> {
        let mut heads = Vec::new();
        while self.seen != self.word(0x402) {
            heads.push(self.word(0x404 + 8 * u64::from(self.seen % SIZE)));
            self.seen = self.seen.wrapping_add(1);
        }
        heads
    }

    fn ask_for_signal(&self) {
        self.guest.write(BASE + 0x204 + 2 * u64::from(SIZE), &self.seen.to_le_bytes());
    }
}

fn start(memory: &Memory, inflight: Option<&Inflight>) -> (Ring, Vec<u16>) {
    let (ring, recovery) = Ring::start(0, SIZE, &ADDRESSES, 0, true, memory, inflight).unwrap();
    (ring, recovery.heads)
}

proptest! {
    #[test]
    fn each_head_comes_and_goes_once_also_over_crashes(steps in prop::collection::vec(0u8..6, 1..300)) {
        let mut driver = Driver::new();
        let inflight = Inflight::create(1, SIZE).unwrap();
        let (mut ring, _) = start(&driver.guest.memory, Some(&inflight));
        let (mut free, mut offered, mut held): (Vec<u16>, Vec<u16>, Vec<u16>) = ((0..SIZE).collect(), vec![], vec![]);
        let mut unseen: Vec<u16> = Vec::new();
        for step in steps {
            match step {
                0 | 1 => if let Some(head) = free.pop() {
                    driver.offer(head);
                    offered.push(head);
                },
                2 | 3 => {
                    let taken = ring.take(&driver.guest.memory, Some(&inflight)).unwrap();
                    prop_assert_eq!(taken, offered.first().copied());
                    offered.drain(..offered.len().min(1));
                    held.extend(taken);
                }
                4 => {
                    if !held.is_empty() {
                        let head = held.remove(held.len() / 2);
                        ring.complete(&driver.guest.memory, head, 1);
                        unseen.push(head);
                    }
                    if held.len() % 2 == 0 {
                        driver.ask_for_signal();
                        let signal = ring.publish(&driver.guest.memory, Some(&inflight));
                        prop_assert_eq!(signal, !unseen.is_empty(), "the driver sleeps until the next one");
                        let seen = driver.reap();
                        prop_assert_eq!(&seen, &unseen);
                        free.append(&mut unseen);
                    }
                }
                _ => {
                    // A crash: what was not published is done again, oldest first.
                    let (next, again) = start(&driver.guest.memory, Some(&inflight));
                    ring = next;
                    let mut lost: Vec<u16> = held.iter().chain(&unseen).copied().collect();
                    let mut same = again.clone();
                    lost.sort_unstable();
                    same.sort_unstable();
                    prop_assert_eq!(lost, same);
                    held = again;
                    unseen.clear();
                }
            }
        }
    }
}

#[test]
fn a_ring_that_breaks_its_rules_is_broken_and_nothing_else() {
    let mut driver = Driver::new();
    let (mut ring, _) = start(&driver.guest.memory, None);
    driver.offer(3);
    driver.offer(3);
    assert_eq!(ring.take(&driver.guest.memory, None), Ok(Some(3)));
    assert_eq!(ring.take(&driver.guest.memory, None), Err(Broken::HeadInFlight(3)));
    let (mut ring, _) = start(&driver.guest.memory, None);
    driver.guest.write(BASE + 0x202, &500u16.to_le_bytes());
    assert_eq!(ring.take(&driver.guest.memory, None), Err(Broken::AvailableIndex));
}

#[test]
fn a_ring_that_lies_badly_is_not_started() {
    let driver = Driver::new();
    for bad in [
        RingAddresses { descriptors: USER + 8, ..ADDRESSES },
        RingAddresses { available: USER + 0x201, ..ADDRESSES },
        RingAddresses { used: USER + 0x402, ..ADDRESSES },
        RingAddresses { available: USER + 0x10, ..ADDRESSES },
        RingAddresses { used: 0x1000, ..ADDRESSES },
        RingAddresses { used: u64::MAX - 3, ..ADDRESSES },
        RingAddresses { descriptors: USER + 0xffe0, ..ADDRESSES },
    ] {
        assert!(Ring::start(0, SIZE, &bad, 0, true, &driver.guest.memory, None).is_none(), "{bad:?}");
    }
}

#[test]
fn a_kick_is_asked_for_before_the_last_look() {
    let mut driver = Driver::new();
    let (mut ring, _) = start(&driver.guest.memory, None);
    driver.offer(1);
    ring.take(&driver.guest.memory, None).unwrap();
    assert!(!ring.arm(&driver.guest.memory));
    assert_eq!(driver.word(0x404 + 8 * u64::from(SIZE)), 1, "the device's event index");
    driver.offer(2);
    assert!(ring.arm(&driver.guest.memory), "what came meanwhile is seen");
}

/// The driver writes to its index with every request: reading it for each costs a cache line that both CPUs want.
#[test]
fn entries_that_were_seen_are_taken_without_another_look_at_the_index() {
    let mut driver = Driver::new();
    let (mut ring, _) = start(&driver.guest.memory, None);
    driver.offer(1);
    driver.offer(2);
    assert_eq!(ring.take(&driver.guest.memory, None), Ok(Some(1)));
    driver.guest.write(BASE + 0x202, &500u16.to_le_bytes());
    assert_eq!(ring.take(&driver.guest.memory, None), Ok(Some(2)));
    assert_eq!(ring.take(&driver.guest.memory, None), Err(Broken::AvailableIndex));
}
