//! The layout of a mounted ext4 file system, kept up to date by the kernel's allocation events.

use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

use dumbwaiter_block::IoTag;
use dumbwaiter_learn::layout::LayoutMap;
use dumbwaiter_linux::Roots;
use dumbwaiter_linux::filesystem::{Volume, volume_of};
use dumbwaiter_linux::recording::{Allocation, AllocationEvent, AllocationEvents};

use crate::Error;
use crate::layout::layout_of_at_most;

/// The kernel's buffer for each CPU: thousands of allocations.
const BUFFER_KB: u64 = 512;
/// Periods until a layout that could not be read is tried again.
const RETRY: u32 = 60;
/// Reading a file system of more files and folders would take minutes.
const FILES_MAX: usize = 100_000;
/// Most allocations that wait for the map; reading it takes too long if there are more.
const WAITING_MAX: usize = 1 << 20;

/// A file system whose layout gives requests their tags.
#[derive(Debug)]
pub(crate) struct LiveLayout {
    mount: PathBuf,
    state: State,
}

#[derive(Debug)]
enum State {
    /// Nothing known, until so many more periods are over.
    Unknown { why: String, periods: u32 },
    /// The programs of e2fsprogs run; allocations are followed already.
    Reading { followed: Followed, reader: JoinHandle<Result<LayoutMap, Error>> },
    /// Known.
    Known { followed: Followed, map: LayoutMap },
}

/// A file system and its allocations since the last look.
struct Followed {
    volume: Volume,
    events: AllocationEvents,
    new: Vec<AllocationEvent>,
}

impl std::fmt::Debug for Followed {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Followed({:?})", self.volume)
    }
}

impl Followed {
    /// Follows the file system mounted at `mount`, which must be on this disk (its folder in sysfs).
    fn new(mount: &Path, disk: &Path) -> Result<Followed, String> {
        let volume = volume_of(mount, &Roots::default()).map_err(|error| error.to_string())?;
        let disk = disk.canonicalize().unwrap_or_else(|_| disk.to_owned());
        if volume.disk != disk {
            return Err(format!("{} is on {}, not on this disk", mount.display(), volume.device.display()));
        }
        let name = volume.device.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let events = AllocationEvents::new(&name, volume.number, BUFFER_KB).map_err(|error| error.to_string())?;
        Ok(Followed { volume, events, new: Vec::new() })
    }

    /// Reads the new allocations. The error says why the map cannot be followed any further.
    fn read(&mut self, mount: &Path) -> Result<(), String> {
        if volume_of(mount, &Roots::default()).ok().as_ref() != Some(&self.volume) {
            return Err(format!("{} is mounted no more", mount.display()));
        }
        match self.events.take(&mut self.new) {
            Ok(0) if self.new.len() <= WAITING_MAX => Ok(()),
            Ok(_) => Err("allocations were lost; the layout is read again".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }
}

/// Takes an allocation into the map.
fn follow(map: &mut LayoutMap, what: Allocation) -> Result<(), Error> {
    match what {
        Allocation::Blocks { inode, logical, first, count, data } => {
            map.allocated(inode, logical, first, count, data).map_err(|error| Error::Refused(error.to_string()))
        }
        Allocation::Inode { inode, folder } => {
            map.inode_allocated(inode, folder);
            Ok(())
        }
        Allocation::Freed { inode } => {
            map.inode_freed(inode);
            Ok(())
        }
    }
}

impl LiveLayout {
    /// The file system mounted at `mount`. It is read from the first period on.
    pub(crate) fn new(mount: &Path) -> LiveLayout {
        LiveLayout { mount: mount.to_owned(), state: State::Unknown { why: "not read yet".to_owned(), periods: 0 } }
    }

    /// Once a period: begins to read the layout, or takes in what was allocated since. `disk`: its folder in sysfs.
    pub(crate) fn period(&mut self, disk: &Path) {
        let unknown = |why: String| State::Unknown { why, periods: RETRY };
        let state = std::mem::replace(&mut self.state, unknown(String::new()));
        self.state = match state {
            State::Unknown { why, periods } if periods > 0 => State::Unknown { why, periods: periods - 1 },
            State::Unknown { .. } => self.begin(disk).unwrap_or_else(unknown),
            State::Reading { followed, reader } => self.wait(followed, reader).unwrap_or_else(unknown),
            State::Known { followed, map } => self.update(followed, map).unwrap_or_else(unknown),
        };
    }

    /// Allocations are followed before the layout is read, so that none is missed in between.
    fn begin(&self, disk: &Path) -> Result<State, String> {
        let followed = Followed::new(&self.mount, disk)?;
        let (device, mount) = (followed.volume.device.clone(), self.mount.clone());
        let read = move || {
            // Lowest priority, if that is permitted; the programs that it starts inherit it.
            let _ = rustix::process::setpriority_process(None, 19);
            layout_of_at_most(&device, Some(&mount), FILES_MAX)
        };
        let reader = std::thread::Builder::new().name("layout".to_owned()).spawn(read);
        Ok(State::Reading { followed, reader: reader.map_err(|error| error.to_string())? })
    }

    fn wait(&self, mut followed: Followed, reader: JoinHandle<Result<LayoutMap, Error>>) -> Result<State, String> {
        followed.read(&self.mount)?;
        if !reader.is_finished() {
            return Ok(State::Reading { followed, reader });
        }
        let read = reader.join().unwrap_or_else(|_| Err(Error::Refused("reading the layout ended early".to_owned())));
        self.update(followed, read.map_err(|error| error.to_string())?)
    }

    fn update(&self, mut followed: Followed, mut map: LayoutMap) -> Result<State, String> {
        followed.read(&self.mount)?;
        for event in followed.new.drain(..) {
            follow(&mut map, event.what).map_err(|error| error.to_string())?;
        }
        Ok(State::Known { followed, map })
    }

    /// The tag of a request that begins at this sector of the disk; `None` where the layout is not known.
    pub(crate) fn tag(&self, sector: u64) -> Option<IoTag> {
        let State::Known { followed, map } = &self.state else { return None };
        sector.checked_sub(followed.volume.first_sector).map(|sector| map.tag(sector))
    }

    /// Where tags come from, in words.
    pub(crate) fn about(&self) -> String {
        let mount = self.mount.display();
        match &self.state {
            State::Known { .. } => format!("layout of {mount}"),
            State::Reading { .. } => format!("the kernel's flags; the layout of {mount} is being read"),
            State::Unknown { why, .. } => format!("the kernel's flags; no layout of {mount}: {why}"),
        }
    }
}
