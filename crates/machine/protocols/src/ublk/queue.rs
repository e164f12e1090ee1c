//! A device's queue: its tags, their memory, and the requests that the driver describes for them.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};

use crate::ublk::Error;
use crate::ublk::abi::{COMMIT_AND_FETCH, DESCRIPTION_BYTES, DeviceInfo, FETCH, TAGS_MAX, tag_argument};
use crate::ublk::request::{Refusal, Request};

/// Linux 5.6; `prctl(2)`.
const PR_SET_IO_FLUSHER: libc::c_int = 57;
/// The node appears some time after the device.
const NODE_PATIENCE: Duration = Duration::from_secs(5);
const NODE_LOOK: Duration = Duration::from_millis(10);

/// A command to the driver, to be sent in a ring (`IORING_OP_URING_CMD`) to [`Queue::device`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command {
    /// The driver's number of the operation.
    pub code: u32,
    /// Its argument.
    pub argument: [u8; 16],
}

/// A memory mapping, unmapped on drop.
struct Mapping {
    start: NonNull<c_void>,
    bytes: usize,
}

// SAFETY: a mapping is not bound to a thread; its owner synchronises access.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped with this length, and no longer used.
        let _ = unsafe { munmap(self.start.as_ptr(), self.bytes) };
    }
}

/// The memory of a queue's tags. It lives as long as a command names it.
pub struct TagMemory {
    mapping: Mapping,
    each: usize,
}

impl TagMemory {
    /// The memory of a tag.
    pub fn of(&self, tag: u16) -> NonNull<u8> {
        // SAFETY: the tag is below the depth by which the memory was made; checked in debug builds.
        debug_assert!((usize::from(tag) + 1) * self.each <= self.mapping.bytes);
        unsafe { self.mapping.start.cast::<u8>().add(usize::from(tag) * self.each) }
    }
}

/// A queue of a device.
pub struct Queue {
    info: DeviceInfo,
    number: u16,
    device: Arc<OwnedFd>,
    descriptions: Mapping,
    memory: Arc<TagMemory>,
}

fn system(what: impl Into<String>) -> impl FnOnce(rustix::io::Errno) -> Error {
    let what = what.into();
    move |source| Error::System { what, source: source.into() }
}

impl Queue {
    /// Opens queue `number` of a device that was added, and makes memory for its tags. Waits up to 5 s for the device's node.
    pub fn open(info: DeviceInfo, number: u16) -> Result<Queue, Error> {
        let path = PathBuf::from(format!("/dev/ublkc{}", info.device));
        let begun = Instant::now();
        let file = loop {
            match File::options().read(true).write(true).open(&path) {
                Ok(file) => break file,
                Err(_) if begun.elapsed() < NODE_PATIENCE => std::thread::sleep(NODE_LOOK),
                Err(source) => return Err(Error::System { what: path.display().to_string(), source }),
            }
        };
        Queue::of(file, info, number)
    }

    /// A queue whose requests the driver describes in `file`.
    pub fn of(file: File, info: DeviceInfo, number: u16) -> Result<Queue, Error> {
        let path = PathBuf::from(format!("/dev/ublkc{}", info.device));
        let bytes = usize::from(info.depth) * DESCRIPTION_BYTES;
        let offset = u64::from(number) * TAGS_MAX * DESCRIPTION_BYTES as u64;
        // SAFETY: a new mapping at a place that the kernel chooses.
        let start = unsafe {
            mmap(std::ptr::null_mut(), bytes, ProtFlags::READ, MapFlags::SHARED | MapFlags::POPULATE, &file, offset)
        };
        let start = start.map_err(system(format!("{}: its requests cannot be mapped", path.display())))?;
        let descriptions = Mapping { start: non_null(start), bytes };
        let each = info.max_io_bytes as usize;
        let bytes = usize::from(info.depth) * each;
        // SAFETY: as above. Pages are there once they are used.
        let start = unsafe {
            mmap_anonymous(
                std::ptr::null_mut(),
                bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )
        };
        let start = start.map_err(system(format!("{bytes} bytes for the requests of a ublk device")))?;
        let memory = Arc::new(TagMemory { mapping: Mapping { start: non_null(start), bytes }, each });
        Ok(Queue { info, number, device: Arc::new(file.into()), descriptions, memory })
    }

    /// The device as the driver describes it.
    pub fn info(&self) -> &DeviceInfo {
        &self.info
    }

    /// The descriptor that takes the commands.
    pub fn device(&self) -> &Arc<OwnedFd> {
        &self.device
    }

    /// The memory that the commands name.
    pub fn memory(&self) -> &Arc<TagMemory> {
        &self.memory
    }

    /// Asks for the first request of a tag.
    pub fn fetch(&self, tag: u16) -> Command {
        self.command(FETCH, tag, 0)
    }

    /// Answers the request of a tag and asks for its next one. `result`: bytes moved, or a negative error number.
    pub fn answer(&self, tag: u16, result: i32) -> Command {
        self.command(COMMIT_AND_FETCH, tag, result)
    }

    fn command(&self, code: u32, tag: u16, result: i32) -> Command {
        let address = self.memory.of(tag).as_ptr() as u64;
        Command { code, argument: tag_argument(self.number, tag, result, address) }
    }

    /// The request of a completed command. It is copied once, because the driver shares the memory.
    pub fn request(&self, tag: u16) -> Result<Request, Refusal> {
        if tag >= self.info.depth {
            return Err(Refusal::Range);
        }
        // SAFETY: within the mapping, by the check above; the driver has written it before it completed the command.
        let description =
            unsafe { self.descriptions.start.cast::<[u8; DESCRIPTION_BYTES]>().add(usize::from(tag)).read_volatile() };
        Request::decode(&description, self.info.max_io_bytes)
    }
}

/// Keeps allocations of this thread from waiting for write-back (`PR_SET_IO_FLUSHER`), which may be to the disk that it serves.
/// No effect without the capability.
pub fn serve_from_here() {
    // SAFETY: a plain call about this thread.
    unsafe { libc::prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0) };
}

/// Whether a process serves this device: only one can have it open.
pub fn is_served(device: u32) -> bool {
    let opened = File::options().read(true).write(true).open(format!("/dev/ublkc{device}"));
    opened.is_err_and(|error| error.raw_os_error() == Some(libc::EBUSY))
}

fn non_null(start: *mut c_void) -> NonNull<c_void> {
    // A mapping is never at address 0 unless that was asked for.
    NonNull::new(start).unwrap_or(NonNull::dangling())
}
