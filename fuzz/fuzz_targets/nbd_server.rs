//! What a client may send to an NBD server, in negotiation and in transmission, in pieces of a size that the first byte gives.
#![no_main]

use dumbwaiter_protocols::nbd::{Description, Exports, Negotiation, Progress, Receiver, Rules, Step};
use libfuzzer_sys::fuzz_target;

struct One;

impl Exports for One {
    fn find(&self, name: &str) -> Option<Description> {
        (name.len() < 2).then(|| Description {
            name: "a".into(),
            size: 1 << 20,
            flags: 0xffff,
            ..Description::default()
        })
    }
    fn list(&self) -> Vec<(String, String)> {
        vec![("a".into(), String::new())]
    }
}

fuzz_target!(|input: &[u8]| {
    let Some((piece, bytes)) = input.split_first() else { return };
    let piece = usize::from(*piece) + 1;
    let (mut negotiation, mut out) = (Negotiation::default(), Vec::new());
    for part in bytes.chunks(piece) {
        if negotiation.feed(part, &One, &mut out) != Progress::More {
            break;
        }
    }
    let rules = Rules { size: 1 << 20, flags: 0, block_sizes: Default::default(), structured: true, allocation: true };
    let (mut receiver, mut rest) = (Receiver::default(), bytes);
    loop {
        match receiver.step(&mut rest) {
            Step::More | Step::Violation => break,
            Step::Request(request) => {
                let _ = request.check(&rules);
            }
            Step::Payload(..) => {}
        }
    }
});
