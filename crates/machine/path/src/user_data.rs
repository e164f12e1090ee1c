//! The operation that a completion entry answers: the layout of `user_data` in the ring.
//!
//! ```text
//! bits 63-62  kind: 0 request, 1 watched descriptor, 2 none (or, with bit 61, command), 3 receive
//! bits 61-32  generation of a watch, so that a late entry of an earlier one is recognised
//! bits 31-0   request id, or number of the watch, the receive or the command
//! ```

use dumbwaiter_block::RequestId;

const KIND_SHIFT: u32 = 62;
const GENERATION_SHIFT: u32 = 32;
/// Tells a command from an entry that needs no answer.
const COMMAND: u64 = 1 << (KIND_SHIFT - 1);
const GENERATION_MASK: u64 = (1 << (KIND_SHIFT - GENERATION_SHIFT)) - 1;

/// Identifies a submission entry and the completion entries that answer it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UserData {
    /// A request of the block layer. Its code is the bare id.
    Request(RequestId),
    /// A poll of a watched descriptor.
    Watch {
        /// Place in the table of watches.
        index: u32,
        /// Tells uses of the same place apart; 30 bits.
        generation: u32,
    },
    /// A receive from a socket, by its number.
    Receive(u32),
    /// A command to a driver, by its number.
    Command(u32),
    /// Needs no answer: the removal of a watch.
    None,
}

impl UserData {
    pub(crate) fn encode(self) -> u64 {
        match self {
            UserData::Request(id) => u64::from(id.0),
            UserData::Watch { index, generation } => {
                1 << KIND_SHIFT | (u64::from(generation) & GENERATION_MASK) << GENERATION_SHIFT | u64::from(index)
            }
            UserData::None => 2 << KIND_SHIFT,
            UserData::Command(index) => 2 << KIND_SHIFT | COMMAND | u64::from(index),
            UserData::Receive(index) => 3 << KIND_SHIFT | u64::from(index),
        }
    }

    #[inline]
    pub(crate) fn decode(user_data: u64) -> UserData {
        match user_data >> KIND_SHIFT {
            0 => UserData::Request(RequestId(user_data as u32)),
            1 => UserData::Watch {
                index: user_data as u32,
                generation: (user_data >> GENERATION_SHIFT & GENERATION_MASK) as u32,
            },
            2 if user_data & COMMAND != 0 => UserData::Command(user_data as u32),
            3 => UserData::Receive(user_data as u32),
            _ => UserData::None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_decodes_to_itself() {
        let last_generation = GENERATION_MASK as u32;
        for code in [
            UserData::Request(RequestId(0)),
            UserData::Request(RequestId(u32::MAX - 1)),
            UserData::Watch { index: 0, generation: 0 },
            UserData::Watch { index: u32::MAX, generation: last_generation },
            UserData::None,
            UserData::Receive(u32::MAX),
            UserData::Command(0),
            UserData::Command(u32::MAX),
        ] {
            assert_eq!(UserData::decode(code.encode()), code);
        }
    }

    #[test]
    fn a_generation_that_wraps_stays_in_its_field() {
        let code = UserData::Watch { index: 7, generation: u32::MAX };
        assert_eq!(UserData::decode(code.encode()), UserData::Watch { index: 7, generation: GENERATION_MASK as u32 });
    }
}
