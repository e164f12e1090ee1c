//! A flash state as a file, so that a long preconditioning is done once.
//!
//! Little-endian: a line that names format and shape, the map (one u32 per logical unit), then per die the open block,
//! the offset in it, the number of openings (u64), the number of free blocks and their indices, and for each block the
//! sequence number of its opening (u64). Valid units follow from the map.

use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::path::Path;

use super::ftl::{DieState, Ftl, Shape};
use super::params::Params;
use super::precondition;
use crate::Error;

/// Writes the initial state of a device with these parameters; the file appears complete or not at all.
///
/// # Errors
/// A file that cannot be written.
pub fn save_state(params: &Params, path: &Path) -> Result<(), Error> {
    let error = |source| Error::Io { path: path.to_owned(), source };
    let ftl = precondition::state(params);
    dumbwaiter_text::write(path, |out| write(&ftl, params, out)).map_err(error)
}

/// Loads a state from a file: devices built from these parameters afterwards start in it.
///
/// # Errors
/// A file that cannot be read, or is not the state of a device with these dimensions.
pub fn load_state(params: &Params, path: &Path) -> Result<(), Error> {
    let file = File::open(path).map_err(|source| Error::Io { path: path.to_owned(), source })?;
    let ftl = read(params, &mut BufReader::new(file)).map_err(|e| match e.kind() {
        io::ErrorKind::InvalidData => Error::State { path: path.to_owned(), message: e.to_string() },
        io::ErrorKind::UnexpectedEof => {
            Error::State { path: path.to_owned(), message: "the file ends too early".into() }
        }
        _ => Error::Io { path: path.to_owned(), source: e },
    })?;
    precondition::keep(params, ftl);
    Ok(())
}

fn header(params: &Params) -> String {
    format!("dumbwaiter flash state 1: {} {:?}\n", params.state, Shape::new(params))
}

fn write(ftl: &Ftl, params: &Params, out: &mut impl Write) -> io::Result<()> {
    out.write_all(header(params).as_bytes())?;
    for unit in 0..ftl.shape.logical_units {
        out.write_all(&ftl.lookup(unit).to_le_bytes())?;
    }
    for die in 0..ftl.shape.dies {
        let die_state = ftl.die_state(die);
        out.write_all(&die_state.open.to_le_bytes())?;
        out.write_all(&die_state.offset.to_le_bytes())?;
        out.write_all(&die_state.openings.to_le_bytes())?;
        out.write_all(&(die_state.free.len() as u32).to_le_bytes())?;
        for block in &die_state.free {
            out.write_all(&block.to_le_bytes())?;
        }
        for opened in &die_state.opened {
            out.write_all(&opened.to_le_bytes())?;
        }
    }
    Ok(())
}

fn read(params: &Params, file: &mut impl Read) -> io::Result<Ftl> {
    let bad = |message: &str| io::Error::new(io::ErrorKind::InvalidData, message.to_owned());
    let expected = header(params);
    let mut found = vec![0; expected.len()];
    file.read_exact(&mut found)?;
    if found != expected.as_bytes() {
        return Err(bad(&format!("expected the file to begin with '{}'", expected.trim_end())));
    }
    let shape = Shape::new(params);
    let mut map = Vec::with_capacity(shape.logical_units as usize);
    for _ in 0..shape.logical_units {
        map.push(number(file)?);
    }
    let mut die_states = Vec::new();
    for _ in 0..shape.dies {
        let (open, offset, openings) = (number(file)?, number(file)?, long(file)?);
        let count = number(file)?;
        if count > shape.blocks_per_die {
            return Err(bad("a die has more free blocks than blocks"));
        }
        let free = (0..count).map(|_| number(file)).collect::<io::Result<_>>()?;
        let opened = (0..shape.blocks_per_die).map(|_| long(file)).collect::<io::Result<_>>()?;
        die_states.push(DieState { open, offset, openings, free, opened });
    }
    if file.read(&mut [0])? > 0 {
        return Err(bad("the file goes on after its end"));
    }
    Ftl::restore(shape, &map, die_states).ok_or_else(|| bad("the map contradicts the blocks"))
}

fn number(file: &mut impl Read) -> io::Result<u32> {
    let mut bytes = [0; 4];
    file.read_exact(&mut bytes)?;
    Ok(u32::from_le_bytes(bytes))
}

fn long(file: &mut impl Read) -> io::Result<u64> {
    let mut bytes = [0; 8];
    file.read_exact(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::{Params as Any, load};

    fn small(state: &str) -> Params {
        let name =
            format!("ssd:sata-mlc?channels=1&dies_per_channel=2&planes=1&pages_per_block=8&ftl_gib=0.01&state={state}");
        match load(&name).unwrap().params() {
            Any::Ssd(p) => p.clone(),
            _ => unreachable!("an SSD"),
        }
    }

    #[test]
    fn a_saved_state_loads_unchanged() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("steady.state");
        for state in ["empty", "fresh", "filled", "steady"] {
            let params = small(state);
            save_state(&params, &path).unwrap();
            let back = read(&params, &mut BufReader::new(File::open(&path).unwrap())).unwrap();
            let was = precondition::state(&params);
            for unit in 0..was.shape.logical_units {
                assert_eq!(back.lookup(unit), was.lookup(unit));
            }
            for die in 0..was.shape.dies {
                assert_eq!(back.die_state(die), was.die_state(die));
            }
            load_state(&params, &path).unwrap();
        }
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "no partial file is left");
    }

    #[test]
    fn a_damaged_file_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state");
        let params = small("filled");
        save_state(&params, &path).unwrap();
        let whole = fs::read(&path).unwrap();
        let refused = |bytes: &[u8]| {
            fs::write(&path, bytes).unwrap();
            load_state(&params, &path).unwrap_err().to_string()
        };
        assert!(refused(&whole[..whole.len() - 3]).contains("ends too early"));
        assert!(refused(&[&whole[..], &[0]].concat()).contains("goes on"));
        assert!(refused(b"").contains("ends too early"));
        let mut other = whole.clone();
        let at = header(&params).len();
        other[at..at + 4].copy_from_slice(&77u32.to_le_bytes());
        assert!(refused(&other).contains("contradicts"));
        other[0] = b'D';
        assert!(refused(&other).contains("expected the file to begin with"));
        assert!(load_state(&params, &dir.path().join("none")).is_err());
        assert!(save_state(&params, &dir.path().join("no/where")).is_err());
    }
}
