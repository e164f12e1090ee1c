//! I/Os as text: `R800`, `W160+16`, `RT:R300`, `c1:t2:BE7:W8`, `R1000..1304/16`, `W800!`, `F`.
//!
//! ```text
//! operation  R read · W synchronous write (O_DIRECT) · w write-back · D discard · E secure erase
//!            Z write-zeroes · F flush
//! +N         length in sectors of 512 bytes; by default 8
//! A..B/STEP  one I/O at A, A+STEP, … up to and including B
//! before     RT: RT0: BE: BE4: IDLE: priority · cN: CPU · tN: tenant · pN: task · sN: stream
//! after      ! force unit access · ^ flush first · ~ never merge
//! ```

use dumbwaiter_block::{Flags, Io, IoClass, Ioprio, Op, TaskId, TenantId};

const LENGTH: u32 = 8;

/// Parses a line of I/Os; `like` gives the defaults.
pub fn parse(text: &str, like: Io) -> Result<Vec<Io>, String> {
    let mut ios = Vec::new();
    for item in text.split_whitespace() {
        parse_item(item, like, &mut ios).map_err(|why| format!("`{item}`: {why}"))?;
    }
    Ok(ios)
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("`{text}` is not a number in range"))
}

fn parse_item(item: &str, mut io: Io, ios: &mut Vec<Io>) -> Result<(), String> {
    let mut rest = item;
    while let Some((prefix, behind)) = rest.split_once(':') {
        rest = behind;
        prefixed(prefix, &mut io)?;
    }
    let mut flags = io.flags;
    while let Some(mark) = rest.chars().next_back().filter(|c| "!^~".contains(*c)) {
        flags = flags.with(match mark {
            '!' => Flags::FUA,
            '^' => Flags::PREFLUSH,
            _ => Flags::NOMERGE,
        });
        rest = &rest[..rest.len() - 1];
    }
    let letter = rest.chars().next().ok_or("an operation is missing")?;
    rest = &rest[letter.len_utf8()..];
    io.op = match letter {
        'R' => Op::Read,
        'W' => {
            flags = flags.with(Flags::SYNC);
            Op::Write
        }
        'w' => Op::Write,
        'D' => Op::Discard,
        'E' => Op::SecureErase,
        'Z' => Op::WriteZeroes,
        'F' => Op::Flush,
        _ => return Err(format!("`{letter}` is not an operation; expected one of R W w D E Z F")),
    };
    io.flags = flags;
    if io.op == Op::Flush {
        io.sectors = 0;
        ios.push(io);
        return if rest.is_empty() { Ok(()) } else { Err("a flush has no sectors".into()) };
    }
    let (place, length) = rest.split_once('+').map_or((rest, None), |(p, l)| (p, Some(l)));
    io.sectors = length.map_or(Ok(LENGTH), number)?;
    let Some((first, to)) = place.split_once("..") else {
        io.sector = number(place)?;
        ios.push(io);
        return Ok(());
    };
    let (last, step) = to.split_once('/').ok_or("a range needs a step, as in R0..64/8")?;
    let (first, last, step) = (number::<u64>(first)?, number::<u64>(last)?, number::<usize>(step)?);
    ios.extend((first..=last).step_by(step.max(1)).map(|sector| Io { sector, ..io }));
    Ok(())
}

fn prefixed(prefix: &str, io: &mut Io) -> Result<(), String> {
    let letters = prefix.trim_end_matches(|c: char| c.is_ascii_digit());
    let digits = &prefix[letters.len()..];
    match letters {
        "c" => io.cpu = number(digits)?,
        "t" => io.tenant = TenantId(number(digits)?),
        "p" => io.task = TaskId(number(digits)?),
        "s" => io.stream = number(digits)?,
        _ => io.ioprio = priority(letters, digits)?,
    }
    Ok(())
}

fn priority(letters: &str, digits: &str) -> Result<Ioprio, String> {
    let (class, usual) = match letters {
        "RT" => (IoClass::Realtime, 4),
        "BE" => (IoClass::BestEffort, 4),
        "IDLE" => (IoClass::Idle, 0),
        "NONE" => (IoClass::None, 0),
        _ => return Err(format!("`{letters}{digits}:` is not known; expected a priority, or c t p s with a number")),
    };
    Ok(Ioprio::new(class, if digits.is_empty() { usual } else { number(digits)? }))
}

/// An extent as text: operation, sector, and the length unless it is 8.
pub fn show(op: Op, sector: u64, sectors: u32) -> String {
    let letter = match op {
        Op::Read => 'R',
        Op::Write => 'W',
        Op::Discard => 'D',
        Op::SecureErase => 'E',
        Op::WriteZeroes => 'Z',
        Op::Flush => return "F".into(),
    };
    match sectors {
        LENGTH => format!("{letter}{sector}"),
        n => format!("{letter}{sector}+{n}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_is_parsed() {
        let ios = parse("c1:t2:RT:R300 w160+16 R0..32/16 IDLE3:W8^! s4:D7~ F", Io::default()).unwrap();
        let text: Vec<String> = ios.iter().map(|io| show(io.op, io.sector, io.sectors)).collect();
        assert_eq!(text.join(" "), "R300 W160+16 R0 R16 R32 W8 D7 F");
        assert_eq!((ios[0].cpu, ios[0].tenant, ios[0].ioprio), (1, TenantId(2), Ioprio::new(IoClass::Realtime, 4)));
        assert!(!ios[1].flags.any(Flags::SYNC) && ios[5].flags.has(Flags::SYNC.with(Flags::FUA).with(Flags::PREFLUSH)));
        assert_eq!(ios[5].ioprio, Ioprio::new(IoClass::Idle, 3));
        assert_eq!((ios[6].stream, ios[6].flags), (4, Flags::NOMERGE));
    }

    #[test]
    fn errors_name_the_mistake() {
        let say = |text: &str| parse(text, Io::default()).unwrap_err();
        assert_eq!(say("R8 X9"), "`X9`: `X` is not an operation; expected one of R W w D E Z F");
        assert_eq!(say("q:R8"), "`q:R8`: `q:` is not known; expected a priority, or c t p s with a number");
        assert_eq!(say("R0..9"), "`R0..9`: a range needs a step, as in R0..64/8");
        assert_eq!(say("F8"), "`F8`: a flush has no sectors");
        assert_eq!(say("R-1"), "`R-1`: `-1` is not a number in range");
    }
}
