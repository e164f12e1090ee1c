//! Words and numbers for operations.

use dumbwaiter_block::{Flags, Op};

use super::columns::OpStyle;
use super::number;

impl OpStyle {
    /// What is expected in the style.
    pub(crate) fn expected(self) -> &'static str {
        match self {
            OpStyle::Letter | OpStyle::Lower | OpStyle::Word => "an operation (read, write, discard, flush, …)",
            OpStyle::ReadIsOne => "1 (read) or 0 (write)",
            OpStyle::WriteIsOne => "0 (read) or 1 (write)",
            OpStyle::HexFlags => "hexadecimal flags",
        }
    }
}

/// An operation as a letter or a word, in any case.
fn word(text: &[u8]) -> Option<(Op, Flags)> {
    let is = |words: &[&str]| words.iter().any(|w| text.eq_ignore_ascii_case(w.as_bytes()));
    let all: [(&[&str], Op); 6] = [
        (&["r", "read", "rd", "rs", "diskread"], Op::Read),
        (&["w", "write", "wr", "ws", "diskwrite"], Op::Write),
        (&["d", "t", "discard", "trim", "unmap"], Op::Discard),
        (&["f", "flush", "sync", "fsync", "datasync", "fdatasync", "diskflush"], Op::Flush),
        (&["e", "secure-erase"], Op::SecureErase),
        (&["z", "wz", "write-zeroes"], Op::WriteZeroes),
    ];
    // As RWBS words these two say more.
    let flags = if is(&["rs", "ws"]) { Flags::SYNC } else { Flags::NONE };
    all.iter().find(|(words, _)| is(words)).map(|(_, op)| (*op, flags))
}

/// Operation and flags in a style. Where words are expected, RWBS words of the kernel are understood, too.
pub(crate) fn op(text: &[u8], style: OpStyle) -> Option<(Op, Flags)> {
    if matches!(style, OpStyle::Letter | OpStyle::Lower | OpStyle::Word) {
        return word(text).or_else(|| rwbs(text));
    }
    let op = match style {
        OpStyle::Letter | OpStyle::Lower | OpStyle::Word => None,
        OpStyle::ReadIsOne | OpStyle::WriteIsOne => match (text, style) {
            (b"1", OpStyle::ReadIsOne) | (b"0", OpStyle::WriteIsOne) => Some(Op::Read),
            (b"0", OpStyle::ReadIsOne) | (b"1", OpStyle::WriteIsOne) => Some(Op::Write),
            _ => None,
        },
        OpStyle::HexFlags => number::hex(text).map(|f| if f & 1 == 1 { Op::Read } else { Op::Write }),
    };
    op.map(|op| (op, Flags::NONE))
}

/// The notation of an operation in a style; `None` if the style cannot express it.
pub(crate) fn op_text(op: Op, style: OpStyle) -> Option<&'static str> {
    let letters = |read, write, discard, flush, erase, zeroes| match op {
        Op::Read => read,
        Op::Write => write,
        Op::Discard => discard,
        Op::Flush => flush,
        Op::SecureErase => erase,
        Op::WriteZeroes => zeroes,
    };
    match style {
        OpStyle::Letter => Some(letters("R", "W", "D", "F", "E", "Z")),
        OpStyle::Lower => Some(letters("r", "w", "d", "f", "e", "z")),
        OpStyle::Word => Some(letters("Read", "Write", "Discard", "Flush", "secure-erase", "write-zeroes")),
        OpStyle::ReadIsOne | OpStyle::HexFlags if op == Op::Read => Some("1"),
        OpStyle::ReadIsOne | OpStyle::HexFlags if op == Op::Write => Some("0"),
        OpStyle::WriteIsOne if op == Op::Read => Some("0"),
        OpStyle::WriteIsOne if op == Op::Write => Some("1"),
        _ => None,
    }
}

/// Operation and flags of the kernel's RWBS word: optional `F` (preflush), one of `R W D DE WZ F N`, then `F` (FUA), `A`
/// (read-ahead), `S` (sync), `M` (metadata) and letters that change nothing here. `None` for neither data nor a flush.
pub(crate) fn rwbs(word: &[u8]) -> Option<(Op, Flags)> {
    let mut flags = Flags::NONE;
    let mut rest = word;
    if let [b'F', more @ ..] = rest {
        flags = Flags::PREFLUSH;
        rest = more;
    }
    let (op, rest) = match rest {
        [b'W', b'Z', more @ ..] => (Op::WriteZeroes, more),
        [b'W', more @ ..] => (Op::Write, more),
        [b'R', more @ ..] => (Op::Read, more),
        [b'D', b'E', more @ ..] => (Op::SecureErase, more),
        [b'D', more @ ..] => (Op::Discard, more),
        // A flush alone is printed as F, FF or FN, followed by flags.
        [b'F' | b'N', more @ ..] if flags.has(Flags::PREFLUSH) => (Op::Flush, more),
        more if flags.has(Flags::PREFLUSH) => (Op::Flush, more),
        _ => return None,
    };
    for letter in rest {
        flags = flags.with(match letter {
            b'F' => Flags::FUA,
            b'A' => Flags::RAHEAD,
            b'S' => Flags::SYNC,
            b'M' => Flags::META,
            b'B' | b'U' | b'T' => Flags::NONE,
            _ => return None,
        });
    }
    if op == Op::Flush {
        flags = flags.without(Flags::PREFLUSH);
    }
    Some((op, flags))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_the_kernel_are_operations_with_flags() {
        let of = |text: &str| op(text.as_bytes(), OpStyle::Letter);
        for (text, operation, flags) in [
            ("R", Op::Read, Flags::NONE),
            ("RA", Op::Read, Flags::RAHEAD),
            ("RSM", Op::Read, Flags::SYNC.with(Flags::META)),
            ("RM", Op::Read, Flags::META),
            ("WS", Op::Write, Flags::SYNC),
            ("WSM", Op::Write, Flags::SYNC.with(Flags::META)),
            ("WFS", Op::Write, Flags::FUA.with(Flags::SYNC)),
            ("FWFS", Op::Write, Flags::PREFLUSH.with(Flags::FUA).with(Flags::SYNC)),
            ("FF", Op::Flush, Flags::NONE),
            ("FN", Op::Flush, Flags::NONE),
            ("D", Op::Discard, Flags::NONE),
            ("DS", Op::Discard, Flags::SYNC),
            ("DE", Op::SecureErase, Flags::NONE),
            ("WZS", Op::WriteZeroes, Flags::SYNC),
            ("read", Op::Read, Flags::NONE),
        ] {
            assert_eq!(of(text), Some((operation, flags)), "{text}");
        }
        for text in ["N", "X", "RX", "", "ra", "12"] {
            assert_eq!(of(text), None, "{text}");
        }
    }
}
