//! The stream of a client in transmission, cut into requests and payloads.

use crate::nbd::request::Request;
use crate::nbd::wire::REQUEST_BYTES;

/// Where a stream is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Header,
    /// Bytes of a payload that are still to come, and whether they are dropped.
    Payload {
        left: u32,
        dropped: bool,
    },
    Broken,
}

/// The next part of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// More bytes are needed.
    More,
    /// A header. The payload of a WRITE follows, unless [`Receiver::drop_payload`] is called now.
    Request(Request),
    /// The next bytes of a payload, and whether it is complete with them.
    Payload(&'a [u8], bool),
    /// No header where one should begin: the stream cannot be read any further.
    Violation,
}

/// Cuts a stream into requests. It keeps no bytes: an incomplete header stays with the caller.
#[derive(Clone, Copy, Debug, Default)]
pub struct Receiver(State);

impl Receiver {
    /// The next step; takes its bytes from the front of `input`.
    pub fn step<'a>(&mut self, input: &mut &'a [u8]) -> Step<'a> {
        loop {
            match self.0 {
                State::Broken => return Step::Violation,
                State::Header => {
                    let Some((header, rest)) = input.split_first_chunk::<REQUEST_BYTES>() else { return Step::More };
                    let Some(request) = Request::parse(header) else {
                        self.0 = State::Broken;
                        return Step::Violation;
                    };
                    *input = rest;
                    if request.payload() > 0 {
                        self.0 = State::Payload { left: request.payload(), dropped: false };
                    }
                    return Step::Request(request);
                }
                State::Payload { left, dropped } => {
                    let count = input.len().min(left as usize);
                    let (part, rest) = input.split_at(count);
                    *input = rest;
                    self.received(count as u32);
                    if !dropped && count > 0 {
                        return Step::Payload(part, self.0 == State::Header);
                    }
                    if count < left as usize {
                        return Step::More;
                    }
                }
            }
        }
    }

    /// Skips the rest of the payload.
    pub fn drop_payload(&mut self) {
        if let State::Payload { dropped, .. } = &mut self.0 {
            *dropped = true;
        }
    }

    /// Bytes of a payload that are still to be received and not dropped.
    pub fn payload_left(&self) -> u32 {
        match self.0 {
            State::Payload { left, dropped: false } => left,
            _ => 0,
        }
    }

    /// Notes that the caller has received `count` bytes of the payload itself, at most those that are left.
    pub fn received(&mut self, count: u32) {
        if let State::Payload { left, dropped } = self.0 {
            let left = left.saturating_sub(count);
            self.0 = if left == 0 { State::Header } else { State::Payload { left, dropped } };
        }
    }

    /// Whether it is between two requests; a stream that ends elsewhere was cut off.
    pub fn between_requests(&self) -> bool {
        self.0 == State::Header
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::nbd::request::Command;

    fn request(command: Command, length: u32) -> Request {
        Request { flags: 0, command, cookie: u64::from(length), offset: 0, length }
    }

    /// Requests with their payloads, from a stream that arrives in pieces; every `drop_nth` payload is dropped.
    fn read_all(stream: &[u8], cuts: &[usize], drop_odd: bool) -> Vec<(Request, Vec<u8>)> {
        let (mut receiver, mut kept, mut out) = (Receiver::default(), Vec::new(), Vec::<(Request, Vec<u8>)>::new());
        let mut pieces = Vec::new();
        let mut rest = stream;
        for cut in cuts {
            let (piece, behind) = rest.split_at((*cut).min(rest.len()));
            pieces.push(piece);
            rest = behind;
        }
        pieces.push(rest);
        for piece in pieces {
            kept.extend_from_slice(piece);
            let mut input = &kept[..];
            loop {
                match receiver.step(&mut input) {
                    Step::More => break,
                    Step::Request(r) => {
                        if drop_odd && out.len() % 2 == 1 {
                            receiver.drop_payload();
                        }
                        out.push((r, Vec::new()));
                    }
                    Step::Payload(bytes, _) => out.last_mut().unwrap().1.extend_from_slice(bytes),
                    Step::Violation => return out,
                }
            }
            let taken = kept.len() - input.len();
            kept.drain(..taken);
        }
        out
    }

    proptest! {
        #[test]
        fn any_split_gives_the_same_requests(
            lengths in prop::collection::vec((0u32..600, any::<bool>()), 1..12),
            cuts in prop::collection::vec(0usize..200, 0..40),
            drop_odd: bool,
        ) {
            let mut stream = Vec::new();
            for (length, write) in &lengths {
                let command = if *write { Command::Write } else { Command::Read };
                let request = request(command, *length);
                stream.extend_from_slice(&request.encode());
                stream.extend((0..request.payload()).map(|i| i as u8));
            }
            let whole = read_all(&stream, &[], drop_odd);
            prop_assert_eq!(whole.len(), lengths.len());
            prop_assert_eq!(read_all(&stream, &cuts, drop_odd), whole);
        }

        #[test]
        fn arbitrary_bytes_never_panic_and_a_violation_is_final(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let mut receiver = Receiver::default();
            let mut input = &bytes[..];
            while !matches!(receiver.step(&mut input), Step::More | Step::Violation) {}
            if receiver.step(&mut input) == Step::Violation {
                let header = request(Command::Read, 1).encode();
                prop_assert_eq!(receiver.step(&mut &header[..]), Step::Violation);
            }
        }
    }

    #[test]
    fn a_payload_received_elsewhere_is_counted() {
        let mut receiver = Receiver::default();
        let header = request(Command::Write, 100).encode();
        let stream = [&header[..], &[1; 10]].concat();
        let mut input = &stream[..];
        assert!(matches!(receiver.step(&mut input), Step::Request(_)));
        assert_eq!(receiver.step(&mut input), Step::Payload(&[1; 10], false));
        assert_eq!((receiver.payload_left(), receiver.between_requests()), (90, false));
        receiver.received(90);
        assert!(receiver.between_requests());
    }
}
