//! The driver's control device: adding, describing, starting, recovering and removing devices.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use io_uring::types::{Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode, squeue};

use crate::ublk::Error;
use crate::ublk::abi::{self, ControlCommand, DeviceInfo, Features, INFO_BYTES, Parameters};

/// Timeout of an answer: adding a device hangs for ever on some kernels (6.17), and starting one reads its partition
/// table through its server.
const PATIENCE: Duration = Duration::from_secs(30);
/// Timeout until a device whose server died is quiesced.
const REST: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(20);

/// The control device. Its calls block.
pub struct Control {
    node: File,
    ring: IoUring<squeue::Entry128, cqueue::Entry>,
    /// Commands sent, to recognise late answers.
    sent: u64,
}

impl Control {
    /// Opens the control device.
    pub fn open() -> Result<Control, Error> {
        let path = PathBuf::from("/dev/ublk-control");
        let node = File::options().read(true).write(true).open(&path);
        let node = node.map_err(|source| Error::NoDriver { path, source })?;
        let ring = IoUring::<squeue::Entry128, cqueue::Entry>::builder().build(4);
        let ring = ring.map_err(|source| Error::System { what: "a ring for the ublk driver".into(), source })?;
        Ok(Control { node, ring, sent: 0 })
    }

    /// The features of the driver; an error before Linux 6.5, where it does not report them.
    pub fn features(&mut self) -> Result<Features, Error> {
        let mut answer = [0u8; 8];
        self.ask(abi::ANY, "features", abi::GET_FEATURES, &mut answer, 0).map_err(|error| match error {
            Error::Refused { source, .. } => {
                let what = "the ublk driver does not report its features; Linux 6.5 or later is needed".into();
                Error::System { what, source }
            }
            other => other,
        })?;
        Ok(Features(u64::from_le_bytes(answer)))
    }

    /// Adds a device. The result has its actual parameters.
    pub fn add(&mut self, wanted: &DeviceInfo) -> Result<DeviceInfo, Error> {
        let mut bytes = wanted.encode();
        self.ask(wanted.device, "the device cannot be added", abi::ADD_DEVICE, &mut bytes, 0)?;
        Ok(DeviceInfo::decode(&bytes))
    }

    /// The description of an existing device.
    pub fn info(&mut self, device: u32) -> Result<DeviceInfo, Error> {
        let mut bytes = [0; INFO_BYTES];
        self.ask(device, "there is no such device", abi::GET_INFO, &mut bytes, 0)?;
        Ok(DeviceInfo::decode(&bytes))
    }

    /// Sets the parameters of a device before its start.
    pub fn describe(&mut self, device: u32, parameters: &Parameters) -> Result<(), Error> {
        let mut bytes = parameters.encode();
        self.ask(device, "the driver refuses its parameters", abi::SET_PARAMETERS, &mut bytes, 0)
    }

    /// Starts the device. Waits until the serving thread, which must be another one, has fetched every tag.
    pub fn start(&mut self, device: u32) -> Result<(), Error> {
        self.ask(device, "it cannot be started", abi::START_DEVICE, &mut [], u64::from(std::process::id()))
    }

    /// Begins the recovery of a device whose server died; waits until the driver has released that server.
    pub fn begin_recovery(&mut self, device: u32) -> Result<DeviceInfo, Error> {
        let begun = Instant::now();
        loop {
            match self.ask(device, "it cannot be recovered", abi::BEGIN_RECOVERY, &mut [], 0) {
                Err(error) if error.refusal() == Some(libc::EBUSY) && begun.elapsed() < REST => {
                    std::thread::sleep(LOOK);
                }
                Err(error) => return Err(error),
                Ok(()) => return self.info(device),
            }
        }
    }

    /// Ends the recovery, once every tag was fetched: the users of the device continue.
    pub fn end_recovery(&mut self, device: u32) -> Result<(), Error> {
        self.ask(device, "its recovery cannot end", abi::END_RECOVERY, &mut [], u64::from(std::process::id()))
    }

    /// A new size, sectors of 512 bytes; needs [`Features::UPDATE_SIZE`].
    pub fn resize(&mut self, device: u32, sectors: u64) -> Result<(), Error> {
        self.ask(device, "its size cannot change", abi::UPDATE_SIZE, &mut [], sectors)
    }

    /// Ends the device: its users get errors, and commands on tags end with `-ENODEV`.
    pub fn stop(&mut self, device: u32) -> Result<(), Error> {
        self.ask(device, "it cannot be stopped", abi::STOP_DEVICE, &mut [], 0)
    }

    /// Removes a stopped device. Waits until its nodes are closed.
    pub fn delete(&mut self, device: u32) -> Result<(), Error> {
        self.ask(device, "it cannot be removed", abi::DELETE_DEVICE, &mut [], 0)
    }

    /// Sends a command and waits for its answer.
    fn ask(&mut self, device: u32, what: &'static str, code: u32, memory: &mut [u8], value: u64) -> Result<(), Error> {
        let refused = |source| Error::Refused { device, what, source };
        // The kernel may write to this after the timeout, so it is allocated here, and leaked in that case.
        let mut own = memory.to_vec();
        let command = ControlCommand { device, address: own.as_mut_ptr() as u64, bytes: own.len() as u16, value };
        let entry = opcode::UringCmd80::new(Fd(self.node.as_raw_fd()), code).cmd(command.encode()).build();
        self.sent += 1;
        let entry = entry.user_data(self.sent);
        // SAFETY: the memory that it names lives until the answer, or for ever.
        unsafe { self.ring.submission().push(&entry) }
            .map_err(|_| refused(io::Error::from_raw_os_error(libc::EBUSY)))?;
        let timeout = Timespec::from(PATIENCE);
        let waited = self.ring.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&timeout));
        let sent = self.sent;
        let answer = self.ring.completion().find(|answer| answer.user_data() == sent);
        match (answer, waited) {
            (Some(answer), _) if answer.result() >= 0 => {
                memory.copy_from_slice(&own);
                Ok(())
            }
            (Some(answer), _) => Err(refused(io::Error::from_raw_os_error(-answer.result()))),
            (None, waited) => {
                std::mem::forget(own);
                match waited {
                    Err(e) if e.raw_os_error() != Some(libc::ETIME) => Err(refused(e)),
                    _ => Err(Error::Silent { device, what, seconds: PATIENCE.as_secs() }),
                }
            }
        }
    }
}
