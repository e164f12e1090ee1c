//! The life of a block device, on a thread of its own, as the driver's commands block: added or taken over, started, resized, removed.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use dumbwaiter_block::SECTOR_BYTES;
use dumbwaiter_protocols::ublk::{Control, DeviceInfo, Features, Parameters, Queue, abi};

use crate::Error;
use crate::inspector::ShardHandle;
use crate::message::{Common, Message};
use crate::ublk::attachment::{Attachment, Description, MAX_IO_BYTES, Order, device_path};

/// Tags of a device.
const TAGS: u16 = 128;
/// The disk's thread has this long to let go of a device that could not be started.
const CLOSE_PATIENCE: Duration = Duration::from_secs(5);

/// Commands to the driver.
trait Driver {
    fn info(&mut self, device: u32) -> Result<DeviceInfo, dumbwaiter_protocols::ublk::Error>;
    fn start(&mut self, device: u32) -> Result<(), dumbwaiter_protocols::ublk::Error>;
    fn end_recovery(&mut self, device: u32) -> Result<(), dumbwaiter_protocols::ublk::Error>;
    fn resize(&mut self, device: u32, sectors: u64) -> Result<(), dumbwaiter_protocols::ublk::Error>;
    fn stop(&mut self, device: u32) -> Result<(), dumbwaiter_protocols::ublk::Error>;
    fn delete(&mut self, device: u32) -> Result<(), dumbwaiter_protocols::ublk::Error>;
}

impl Driver for Control {
    fn info(&mut self, device: u32) -> Result<DeviceInfo, dumbwaiter_protocols::ublk::Error> {
        Control::info(self, device)
    }

    fn start(&mut self, device: u32) -> Result<(), dumbwaiter_protocols::ublk::Error> {
        Control::start(self, device)
    }

    fn end_recovery(&mut self, device: u32) -> Result<(), dumbwaiter_protocols::ublk::Error> {
        Control::end_recovery(self, device)
    }

    fn resize(&mut self, device: u32, sectors: u64) -> Result<(), dumbwaiter_protocols::ublk::Error> {
        Control::resize(self, device, sectors)
    }

    fn stop(&mut self, device: u32) -> Result<(), dumbwaiter_protocols::ublk::Error> {
        Control::stop(self, device)
    }

    fn delete(&mut self, device: u32) -> Result<(), dumbwaiter_protocols::ublk::Error> {
        Control::delete(self, device)
    }
}

/// A device with the thread that looks after it.
pub(crate) struct Device {
    orders: Sender<Order>,
    thread: JoinHandle<()>,
}

impl Device {
    /// Makes the device, or takes it over from a server that died, and waits until it is there.
    pub(crate) fn start(description: Description, shard: ShardHandle, common: Arc<Common>) -> Result<Device, Error> {
        let number = description.number;
        let (orders, received) = channel();
        let (ready, started) = channel();
        let own_orders = orders.clone();
        let work = move || {
            let made = make(&description, &shard, own_orders);
            let (mut control, closed) = match made {
                Ok(made) => made,
                // The starter waits for it.
                Err(error) => return drop(ready.send(Err(error))),
            };
            let _ = ready.send(Ok(()));
            look_after(number, &mut control, &received, &closed, &|error| common.log.say(&error.to_string()));
        };
        let thread = std::thread::Builder::new().name(format!("ublk-{number}")).spawn(work);
        let thread = thread.map_err(Error::io("cannot start a thread"))?;
        started.recv().map_err(|_| Error::Gone)??;
        Ok(Device { orders, thread })
    }

    /// Ends the device, or leaves it for the next server, and waits for that.
    pub(crate) fn end(self, leave: bool) {
        // It may have ended by itself.
        let _ = self.orders.send(if leave { Order::Leave } else { Order::Stop });
        let _ = self.thread.join();
    }
}

/// A device whose queue the disk's thread serves, and what says that it no longer does.
fn make(
    description: &Description,
    shard: &ShardHandle,
    orders: Sender<Order>,
) -> Result<(Control, Receiver<()>), Error> {
    let Description { number, parameters, .. } = description;
    let number = *number;
    let mut control = Control::open()?;
    let features = control.features()?;
    if !features.has(Features::IOCTL_NUMBERS) {
        let path = device_path(number);
        return Err(Error::Settings(format!(
            "{path}: the kernel's ublk driver is too old; it needs Linux 6.5 or later"
        )));
    }
    let there = usable(&mut control, number, dumbwaiter_protocols::ublk::is_served)?;
    let recovered = there.is_some();
    let info = match there {
        None => {
            let wanted = DeviceInfo {
                queues: 1,
                depth: TAGS,
                max_io_bytes: MAX_IO_BYTES,
                device: number,
                features: Features::IOCTL_NUMBERS | features.and(Features::USER_RECOVERY | Features::REISSUE),
                ..DeviceInfo::default()
            };
            control.add(&wanted)?
        }
        Some(there) => take_over(&mut control, &there, parameters)?,
    };
    let attached = attach(&mut control, info, recovered, description, shard, orders);
    match attached {
        Ok(closed) => Ok((control, closed)),
        Err(error) => {
            // A device that was there stays for another attempt.
            if !recovered {
                let _ = control.delete(number);
            }
            Err(error)
        }
    }
}

/// The device of this number, if it is there. One whose server died before it had started it cannot be used and is removed.
fn usable(
    driver: &mut impl Driver,
    number: u32,
    is_served: impl Fn(u32) -> bool,
) -> Result<Option<DeviceInfo>, dumbwaiter_protocols::ublk::Error> {
    match driver.info(number) {
        Ok(there) if there.state == abi::DEAD && !is_served(number) => driver.delete(number).map(|()| None),
        answer => Ok(answer.ok()),
    }
}

/// Takes a device whose server died, if it is the one of this export.
fn take_over(control: &mut Control, there: &DeviceInfo, parameters: &Parameters) -> Result<DeviceInfo, Error> {
    let path = device_path(there.device);
    if there.state != abi::QUIESCED {
        return Err(Error::Settings(format!(
            "{path}: process {} serves this device already; stop it or choose another number",
            there.server
        )));
    }
    let size = std::fs::read_to_string(format!("/sys/class/block/ublkb{}/size", there.device));
    let sectors = size.ok().and_then(|text| text.trim().parse::<u64>().ok());
    if sectors != Some(parameters.sectors) {
        let has = sectors.map_or("an unknown size".to_owned(), |n| format!("{} bytes", n * SECTOR_BYTES));
        return Err(Error::Settings(format!(
            "{path}: waits for a server with another export: it has {has}, the export {} bytes",
            parameters.sectors * SECTOR_BYTES
        )));
    }
    Ok(control.begin_recovery(there.device)?)
}

/// Gives the device's queue to the disk's thread and lets requests come.
fn attach(
    control: &mut Control,
    info: DeviceInfo,
    recovered: bool,
    description: &Description,
    shard: &ShardHandle,
    orders: Sender<Order>,
) -> Result<Receiver<()>, Error> {
    let Description { tenant, parameters, .. } = *description;
    if !recovered {
        control.describe(info.device, &parameters)?;
    }
    let queue = Queue::open(info, 0)?;
    let (fetched, all_fetched) = channel();
    let (closed, is_closed) = channel();
    shard.send(Message::Attach(Box::new(Attachment { tenant, queue, fetched, orders, closed })))?;
    all_fetched.recv().map_err(|_| Error::Gone)?;
    begin(control, info.device, recovered, &is_closed)?;
    Ok(is_closed)
}

/// Lets requests come. A new device that cannot be started is stopped: then the disk's thread lets go of it, and it can be removed.
fn begin(
    driver: &mut impl Driver,
    device: u32,
    recovered: bool,
    closed: &Receiver<()>,
) -> Result<(), dumbwaiter_protocols::ublk::Error> {
    if recovered {
        return driver.end_recovery(device);
    }
    driver.start(device).inspect_err(|_| {
        let _ = driver.stop(device);
        let _ = closed.recv_timeout(CLOSE_PATIENCE);
    })
}

/// Carries out orders until the device has ended. One that fails does not keep those after it from being carried out.
fn look_after(
    number: u32,
    driver: &mut impl Driver,
    orders: &Receiver<Order>,
    closed: &Receiver<()>,
    failed: &dyn Fn(dumbwaiter_protocols::ublk::Error),
) {
    loop {
        match orders.recv() {
            Ok(Order::Resize(bytes)) => driver.resize(number, bytes / SECTOR_BYTES).unwrap_or_else(failed),
            Ok(Order::Leave) | Err(_) => return,
            Ok(Order::Stop) => match driver.stop(number) {
                Ok(()) => {
                    // The disk's thread still has the device open until its last tag has ended.
                    let _ = closed.recv();
                    return driver.delete(number).unwrap_or_else(failed);
                }
                Err(error) => return failed(error),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    /// A driver that notes what it is asked for, and refuses some of it.
    #[derive(Default)]
    struct FakeDriver {
        asked: Vec<&'static str>,
        refuses: &'static [&'static str],
        there: Option<DeviceInfo>,
    }

    impl FakeDriver {
        fn ask(&mut self, device: u32, what: &'static str) -> Result<(), dumbwaiter_protocols::ublk::Error> {
            self.asked.push(what);
            let source = std::io::Error::from_raw_os_error(libc::EOPNOTSUPP);
            match self.refuses.contains(&what) {
                true => Err(dumbwaiter_protocols::ublk::Error::Refused { device, what, source }),
                false => Ok(()),
            }
        }
    }

    impl Driver for FakeDriver {
        fn info(&mut self, device: u32) -> Result<DeviceInfo, dumbwaiter_protocols::ublk::Error> {
            self.ask(device, "info")?;
            let source = std::io::Error::from_raw_os_error(libc::ENODEV);
            self.there.ok_or(dumbwaiter_protocols::ublk::Error::Refused { device, what: "info", source })
        }

        fn start(&mut self, device: u32) -> Result<(), dumbwaiter_protocols::ublk::Error> {
            self.ask(device, "start")
        }

        fn end_recovery(&mut self, device: u32) -> Result<(), dumbwaiter_protocols::ublk::Error> {
            self.ask(device, "end_recovery")
        }

        fn resize(&mut self, device: u32, _sectors: u64) -> Result<(), dumbwaiter_protocols::ublk::Error> {
            self.ask(device, "resize")
        }

        fn stop(&mut self, device: u32) -> Result<(), dumbwaiter_protocols::ublk::Error> {
            self.ask(device, "stop")
        }

        fn delete(&mut self, device: u32) -> Result<(), dumbwaiter_protocols::ublk::Error> {
            self.ask(device, "delete")
        }
    }

    /// Before Linux 6.16 the size of a device cannot change.
    #[test]
    fn a_device_whose_size_cannot_change_is_still_removed_at_the_end() {
        let (orders, received) = channel();
        let (closed, is_closed) = channel::<()>();
        drop(closed);
        orders.send(Order::Resize(1 << 20)).unwrap();
        orders.send(Order::Stop).unwrap();
        let mut driver = FakeDriver { refuses: &["resize"], ..FakeDriver::default() };
        let failures = RefCell::new(Vec::new());
        look_after(3, &mut driver, &received, &is_closed, &|error| failures.borrow_mut().push(error.to_string()));
        assert_eq!(driver.asked, ["resize", "stop", "delete"]);
        assert!(failures.into_inner()[0].contains("resize"));
    }

    #[test]
    fn a_device_whose_server_died_before_its_start_is_removed_and_others_are_kept() {
        let dead = DeviceInfo { state: abi::DEAD, device: 3, ..DeviceInfo::default() };
        let quiesced = DeviceInfo { state: abi::QUIESCED, ..dead };
        for (there, served, kept) in [
            (Some(dead), false, None),
            // Another server is about to start it.
            (Some(dead), true, Some(dead)),
            (Some(quiesced), false, Some(quiesced)),
            (None, false, None),
        ] {
            let mut driver = FakeDriver { there, ..FakeDriver::default() };
            assert_eq!(usable(&mut driver, 3, |_| served).unwrap(), kept);
            let removed = there == Some(dead) && !served;
            assert_eq!(driver.asked.contains(&"delete"), removed, "{there:?} {served}");
        }
        let mut driver = FakeDriver { there: Some(dead), refuses: &["delete"], ..FakeDriver::default() };
        assert!(usable(&mut driver, 3, |_| false).is_err());
    }

    #[test]
    fn a_new_device_that_cannot_be_started_is_stopped_and_waited_for() {
        let (closed, is_closed) = channel::<()>();
        let mut driver = FakeDriver { refuses: &["start"], ..FakeDriver::default() };
        let lets_go = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(50));
            drop(closed);
        });
        let begun = std::time::Instant::now();
        assert!(begin(&mut driver, 3, false, &is_closed).is_err());
        assert_eq!(driver.asked, ["start", "stop"]);
        assert!(lets_go.is_finished() || begun.elapsed() >= Duration::from_millis(50), "the disk's thread has let go");
        lets_go.join().unwrap();
    }

    #[test]
    fn a_device_whose_recovery_fails_stays_for_another_attempt() {
        let (_closed, is_closed) = channel::<()>();
        let mut driver = FakeDriver { refuses: &["end_recovery"], ..FakeDriver::default() };
        assert!(begin(&mut driver, 3, true, &is_closed).is_err());
        assert_eq!(driver.asked, ["end_recovery"]);
    }
}
