//! A block device as a client of its export: the driver's requests in, answers out. All of it runs on the disk's thread.
#![allow(unsafe_code)]

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;

use dumbwaiter_block::{Errno, SECTOR_BYTES, TaskId};
use dumbwaiter_path::{Data, DriverCommand, Iovecs};
use dumbwaiter_protocols::ublk::{Attributes, Command as TagCommand, Operation, Parameters, Queue, Request};

use super::attachment::{Attachment, Description, MAX_IO_BYTES, Order, device_path};
use crate::Error;
use crate::client::{Client, ClientInfo, ClientState, ServeContext};
use crate::event::ClientEvent;
use crate::operation::Command;
use crate::shard::Shard;
use crate::volume::Volume;

/// Largest range to be discarded or zeroed: 1 GiB.
const MAX_DISCARD_SECTORS: u32 = 1 << 21;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Serving,
    /// The driver was asked to end the device: every tag will end.
    Stopping,
    /// The device waits for another server, which gets what is not answered.
    Leaving,
}

/// A request under way.
#[derive(Clone, Copy)]
struct Pending {
    /// Bytes that a good answer reports.
    moved: i32,
    memory: libc::iovec,
}

/// A device that is served.
pub(super) struct Session {
    queue: Queue,
    info: ClientInfo,
    task: Option<TaskId>,
    /// By tag.
    pending: Vec<Pending>,
    /// Tags that the driver has not ended.
    open: u32,
    in_flight: u32,
    answers: Vec<(u16, i32)>,
    /// To be called once every tag is fetched.
    fetched: Option<Sender<()>>,
    orders: Sender<Order>,
    phase: Phase,
    /// Dropped last, behind the queue.
    _closed: Sender<()>,
}

impl Shard {
    /// The block devices of the tenants that are to have one.
    pub(crate) fn device_descriptions(&self) -> Vec<Description> {
        let facts = self.volume.disk.target().facts();
        let rotational = self.volume.disk.layer().config().setup.rotational;
        let describe = |(tenant, own): (u32, &crate::tenant::Tenant)| {
            let number = own.settings.ublk?;
            let readonly = own.settings.readonly;
            let attributes = Attributes { readonly, rotational, volatile_cache: true, fua: true };
            let parameters = Parameters {
                sectors: own.size / SECTOR_BYTES,
                block_bytes: own.settings.block_bytes(facts.logical_block),
                max_sectors: MAX_IO_BYTES / SECTOR_BYTES as u32,
                attributes,
                max_discard_sectors: if readonly { 0 } else { MAX_DISCARD_SECTORS },
            };
            Some(Description { number, tenant, parameters })
        };
        self.volume.tenants().filter_map(describe).collect()
    }

    /// Serves a block device of this machine.
    pub(crate) fn attach(&mut self, attachment: Attachment) -> Result<(), Error> {
        let tenant = attachment.tenant;
        if self.shut_down_by.is_some() || self.volume.tenant(tenant).is_none_or(|own| own.leaving) {
            return Ok(());
        }
        dumbwaiter_protocols::ublk::serve_from_here();
        let task = self.volume.add_task(tenant)?;
        let session = Session::new(attachment, task);
        self.common.connections.fetch_add(1, Ordering::Relaxed);
        self.admit(Box::new(session));
        Ok(())
    }
}

impl Session {
    fn new(attachment: Attachment, task: TaskId) -> Session {
        let Attachment { tenant, queue, fetched, orders, closed } = attachment;
        let tags = queue.info().depth;
        let memory = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        Session {
            info: ClientInfo::new(tenant, device_path(queue.info().device), false),
            queue,
            task: Some(task),
            pending: vec![Pending { moved: 0, memory }; usize::from(tags)],
            open: u32::from(tags),
            in_flight: 0,
            answers: Vec::new(),
            fetched: Some(fetched),
            orders,
            phase: Phase::Serving,
            _closed: closed,
        }
    }

    /// Sends a command on a tag.
    fn send(&mut self, tag: u16, command: TagCommand, volume: &mut Volume) -> Result<(), Error> {
        let memory: Arc<dyn std::any::Any + Send + Sync> = self.queue.memory().clone();
        let TagCommand { code, argument } = command;
        let token = self.info.token(u32::from(tag));
        // SAFETY: the command names the tag's part of this memory, which is used again only once the driver brings a request for it.
        let sent = unsafe { volume.disk.command(self.queue.device(), DriverCommand { code, argument }, memory, token) };
        Ok(sent?)
    }

    /// Carries out the request that the driver brought for a tag.
    fn begin(&mut self, tag: u16, volume: &mut Volume) -> Result<(), Error> {
        let Some((size, readonly)) = volume.tenant(self.info.tenant).map(|own| (own.size, own.settings.readonly))
        else {
            self.answers.push((tag, -libc::EIO));
            return Ok(());
        };
        let refusal = match self.queue.request(tag) {
            Ok(Request { offset, length, .. }) if offset.saturating_add(u64::from(length)) > size => libc::EIO,
            Ok(Request { operation, .. }) if readonly && !matches!(operation, Operation::Read | Operation::Flush) => {
                libc::EROFS
            }
            Ok(request) => return self.submit(tag, request, volume),
            Err(_) => libc::EOPNOTSUPP,
        };
        if let Some(own) = volume.tenant_mut(self.info.tenant) {
            own.counts.refused += 1;
        }
        self.answers.push((tag, -refusal));
        Ok(())
    }

    fn submit(&mut self, tag: u16, request: Request, volume: &mut Volume) -> Result<(), Error> {
        let Some(task) = self.task else { return Ok(()) };
        let Request { operation, offset, length, fua } = request;
        let command = match operation {
            Operation::Read => Command::Read { offset, length },
            Operation::Write => Command::Write { offset, length, fua },
            Operation::Flush => Command::Flush,
            Operation::Discard => Command::Trim { offset, length, fua },
            Operation::WriteZeroes => Command::Zero { offset, length, fua, keep: true, fast: false },
        };
        let carries_data = matches!(operation, Operation::Read | Operation::Write);
        let pending = &mut self.pending[usize::from(tag)];
        pending.moved = if carries_data { length as i32 } else { 0 };
        let data = if carries_data {
            pending.memory =
                libc::iovec { iov_base: self.queue.memory().of(tag).as_ptr().cast(), iov_len: length as usize };
            // SAFETY: the list stays where it is and the memory is the tag's until the answer; the session closes when nothing is under way.
            Data::Iovec(unsafe { Iovecs::new(std::slice::from_ref(&pending.memory)) })
        } else {
            Data::Scratch
        };
        self.in_flight += 1;
        volume.submit(self.info.tenant, task, command, data, self.info.token(u32::from(tag)))
    }

    fn completed(&mut self, tag: u16, result: Result<(), Errno>) {
        self.in_flight -= 1;
        let answer = match result {
            Ok(()) => self.pending[usize::from(tag)].moved,
            Err(Errno(number)) => -number,
        };
        self.answers.push((tag, answer));
    }

    /// A driver has brought a request for a tag, or ended the tag.
    fn driver_answered(&mut self, tag: u32, result: i32, volume: &mut Volume) -> Result<(), Error> {
        match (result, self.phase) {
            // It comes again, to the next server.
            (0, Phase::Leaving) => return Ok(()),
            (0, _) => return self.begin(tag as u16, volume),
            _ => {}
        }
        self.open -= 1;
        if !matches!(-result, libc::ENODEV | libc::ECANCELED) {
            let why = std::io::Error::from_raw_os_error(-result);
            self.info.notes.push(format!("the driver took tag {tag} back: {why}"));
        }
        Ok(())
    }

    /// Ends the device, or leaves it for the next server.
    fn drop_client(&mut self) {
        if self.phase == Phase::Serving {
            // Its thread was ordered to leave it, so that the device cannot be ended: it waits for the next server.
            let ending = self.orders.send(Order::Stop).is_ok();
            self.phase = if ending { Phase::Stopping } else { Phase::Leaving };
        }
    }

    fn is_over(&self) -> bool {
        match self.phase {
            Phase::Serving | Phase::Stopping => self.open == 0 && self.in_flight == 0,
            Phase::Leaving => self.in_flight == 0,
        }
    }
}

impl Client for Session {
    fn info(&self) -> &ClientInfo {
        &self.info
    }

    fn info_mut(&mut self) -> &mut ClientInfo {
        &mut self.info
    }

    fn handle(&mut self, event: ClientEvent, volume: &mut Volume) -> Result<(), Error> {
        match event {
            ClientEvent::Completed { token, result, .. } => self.completed(token as u16, result),
            ClientEvent::DriverAnswered { tag, result } => self.driver_answered(tag, result, volume)?,
            ClientEvent::Resized(bytes) => {
                let _ = self.orders.send(Order::Resize(bytes));
            }
            // Devices that end were ended before the disk's thread.
            ClientEvent::Finish if self.phase == Phase::Serving => self.phase = Phase::Leaving,
            ClientEvent::Drop(_) => self.drop_client(),
            _ => {}
        }
        Ok(())
    }

    fn serve(&mut self, context: &mut ServeContext<'_>) -> Result<ClientState, Error> {
        if let Some(fetched) = self.fetched.take() {
            for tag in 0..self.queue.info().depth {
                self.send(tag, self.queue.fetch(tag), context.volume)?;
            }
            // The device's own thread may have given up.
            let _ = fetched.send(());
        }
        if self.phase != Phase::Leaving {
            let mut answers = std::mem::take(&mut self.answers);
            for (tag, result) in answers.drain(..) {
                self.send(tag, self.queue.answer(tag, result), context.volume)?;
            }
            self.answers = answers;
        }
        Ok(ClientState { is_over: self.is_over(), ..ClientState::default() })
    }

    fn is_gone(&self) -> bool {
        self.phase != Phase::Serving
    }

    fn close(mut self: Box<Self>, volume: &mut Volume) -> Result<(), Error> {
        if let Some(task) = self.task.take() {
            volume.end_task(task);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;
    use std::sync::mpsc::{Receiver, channel};

    use dumbwaiter_protocols::ublk::DeviceInfo;

    use super::*;
    use crate::settings::ExportSettings;
    use crate::test_volume::null_volume;

    const TAGS: u16 = 4;

    /// A device without a driver: its requests are described in a file.
    struct Lab {
        volume: Volume,
        session: Session,
        descriptions: std::fs::File,
        /// `None` once the device's own thread is gone.
        orders: Option<Receiver<Order>>,
        _fetched: Receiver<()>,
        _closed: Receiver<()>,
    }

    fn lab() -> Lab {
        let mut volume = null_volume();
        let tenant = volume.add_tenant(ExportSettings::whole("a")).unwrap();
        let task = volume.add_task(tenant).unwrap();
        let descriptions = tempfile::tempfile().unwrap();
        descriptions.set_len(4096).unwrap();
        let info = DeviceInfo { queues: 1, depth: TAGS, max_io_bytes: 4096, ..DeviceInfo::default() };
        let queue = Queue::of(descriptions.try_clone().unwrap(), info, 0).unwrap();
        let (fetched, hears_fetched) = channel();
        let (orders, received) = channel();
        let (closed, hears_closed) = channel();
        let session = Session::new(Attachment { tenant, queue, fetched, orders, closed }, task);
        Lab { volume, session, descriptions, orders: Some(received), _fetched: hears_fetched, _closed: hears_closed }
    }

    impl Lab {
        /// The driver brings a read of the first 4 KiB for a tag.
        fn bring(&mut self, tag: u16) {
            let mut description = [0; 24];
            description[4..8].copy_from_slice(&8u32.to_le_bytes());
            self.descriptions.write_all_at(&description, 24 * u64::from(tag)).unwrap();
            self.session.driver_answered(u32::from(tag), 0, &mut self.volume).unwrap();
        }
    }

    #[test]
    fn a_request_is_begun_while_the_device_is_served() {
        let mut lab = lab();
        lab.bring(1);
        assert_eq!((lab.session.in_flight, lab.volume.is_idle()), (1, false));
    }

    #[test]
    fn what_comes_while_the_device_is_left_is_for_the_next_server() {
        let mut lab = lab();
        lab.session.handle(ClientEvent::Finish, &mut lab.volume).unwrap();
        lab.bring(1);
        assert!(lab.session.is_over(), "nothing of it is under way");
        assert!(lab.volume.is_idle() && lab.session.answers.is_empty());
    }

    #[test]
    fn a_dropped_device_ends_with_its_last_tag() {
        let mut lab = lab();
        lab.session.handle(ClientEvent::Drop(None), &mut lab.volume).unwrap();
        assert!(matches!(lab.orders.as_ref().unwrap().try_recv(), Ok(Order::Stop)));
        for tag in 0..u32::from(TAGS) {
            assert!(!lab.session.is_over());
            lab.session.driver_answered(tag, -libc::ENODEV, &mut lab.volume).unwrap();
        }
        assert!(lab.session.is_over() && lab.session.info.notes.is_empty());
    }

    #[test]
    fn a_device_that_nobody_can_end_any_more_is_left_and_waits_for_no_tag() {
        let mut lab = lab();
        lab.bring(1);
        // Its thread was told to leave it.
        lab.orders = None;
        lab.session.handle(ClientEvent::Drop(None), &mut lab.volume).unwrap();
        assert!(!lab.session.is_over(), "a request is under way");
        let done = ClientEvent::Completed { token: 1, result: Ok(()), data: Data::Scratch };
        lab.session.handle(done, &mut lab.volume).unwrap();
        assert!(lab.session.is_over());
    }
}
