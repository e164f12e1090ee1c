//! The life of a block device, on a thread of its own, as the driver's commands block: added or taken over, started, resized, removed.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use dumbwaiter_block::SECTOR_BYTES;
use dumbwaiter_ublk::{Control, DeviceInfo, Features, Parameters, Queue, abi};

use crate::Error;
use crate::inspector::ShardHandle;
use crate::shard::{Common, Message};
use crate::ublk::attachment::{Attachment, Description, MAX_IO_BYTES, Order, device_path};

/// Tags of a device.
const TAGS: u16 = 128;

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
            if let Err(error) = look_after(number, &mut control, &received, &closed) {
                (common.log)(&error.to_string());
            }
        };
        let thread = std::thread::Builder::new().name(format!("ublk-{number}")).spawn(work);
        let thread = thread.map_err(Error::io("a thread cannot be started"))?;
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
        return Err(Error::Settings(format!("{}: this kernel's ublk driver is too old", device_path(number))));
    }
    let there = control.info(number).ok();
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

/// Takes a device whose server died, if it is the one of this export.
fn take_over(control: &mut Control, there: &DeviceInfo, parameters: &Parameters) -> Result<DeviceInfo, Error> {
    let path = device_path(there.device);
    if there.state != abi::QUIESCED {
        return Err(Error::Settings(format!("{path}: process {} serves it", there.server)));
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
    if recovered {
        control.end_recovery(info.device)?;
    } else {
        control.start(info.device)?;
    }
    Ok(is_closed)
}

/// Carries out orders until the device has ended.
fn look_after(
    number: u32,
    control: &mut Control,
    orders: &Receiver<Order>,
    closed: &Receiver<()>,
) -> Result<(), Error> {
    loop {
        match orders.recv() {
            Ok(Order::Resize(bytes)) => control.resize(number, bytes / SECTOR_BYTES)?,
            Ok(Order::Leave) | Err(_) => return Ok(()),
            Ok(Order::Stop) => {
                control.stop(number)?;
                // The disk's thread still has the device open until its last tag has ended.
                let _ = closed.recv();
                return Ok(control.delete(number)?);
            }
        }
    }
}
