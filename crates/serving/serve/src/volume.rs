//! A disk with its tenants: commands of any protocol in, results out. Limits, counts and the data's safety are kept here.

use std::os::fd::BorrowedFd;

use dumbwaiter_block::{Errno, Flags, Io, Nanos, Op, SECTOR_BYTES, Task, TaskId};
use dumbwaiter_path::{Buffer, Data, Disk, Event, Interest, WatchId};

use crate::Error;
use crate::buffers::Buffers;
use crate::depth_search::{self, DepthSearch};
use crate::operation::{Command, Operation, Stage};
use crate::settings::{ExportSettings, check_overlap, place};
use crate::tenant::Tenant;
use crate::zeroes::Zeroes;

/// How often reservations are looked at.
pub(crate) const RESERVATION_PERIOD: Nanos = Nanos::from_ms(50);
/// The result of an I/O that a limit held back until its client was gone.
const GIVEN_UP: Errno = Errno(libc::ESHUTDOWN);

/// A command that is done.
pub(crate) struct Done {
    pub(crate) token: u64,
    pub(crate) result: Result<(), Errno>,
    /// What came with the command.
    pub(crate) data: Data,
}

/// What a turn of a volume answers with.
pub(crate) enum Happened {
    Done(Done),
    /// A receive, by its tag.
    Received {
        tag: u64,
        buffer: Buffer,
        result: Result<usize, Errno>,
    },
    /// A driver has answered a command, by its tag.
    Commanded {
        tag: u64,
        result: i32,
    },
    /// A descriptor of an owner's is ready.
    Ready {
        watch: WatchId,
        owner: u32,
    },
    Woken,
}

/// A disk with its tenants.
pub(crate) struct Volume {
    pub(crate) disk: Disk,
    /// Dropped after the disk, which writes from it.
    zeroes_memory: Zeroes,
    pub(crate) buffers: Buffers,
    tenants: Vec<Option<Tenant>>,
    operations: Vec<Operation>,
    free: Vec<u32>,
    /// What happened since the last turn ended.
    happened: Vec<Happened>,
    events: Vec<Event>,
    /// Owners of watched descriptors, by the watch's index.
    watchers: Vec<u32>,
    /// Direct I/O takes memory that is aligned to so many bytes.
    pub(crate) memory_align: usize,
    /// Tenants with I/Os that a limit holds back.
    throttled: Vec<u32>,
    /// A flush failed: what was written before may be lost, and no later flush can say otherwise.
    pub(crate) flush_failed: bool,
    /// The device supports zeroing, unless it has refused it.
    zeroes: bool,
    trims: bool,
    pub(crate) last_failure: Option<String>,
    next_review: Nanos,
    reserved: crate::reservation::Reservations,
    /// Finds the device depth, where that is automatic.
    pub(crate) depth_search: Option<DepthSearch>,
    /// The device works by itself: it gets the next requests before clients get their replies, or it would be idle meanwhile.
    pub(crate) fills_device_first: bool,
    /// The target is read through the page cache, whose pages go to sockets.
    pub(crate) sends_from_file: bool,
    /// The tenant of the last request, and since when requests have been its own.
    pub(crate) alone: (u32, Nanos),
    next_depth_look: Nanos,
    /// Some tenant has a reservation, or had one.
    any_reserved: bool,
}

impl Volume {
    pub(crate) fn new(disk: Disk, memory: u64, trims: bool, memory_align: usize) -> Volume {
        Volume {
            disk,
            zeroes_memory: Zeroes::new(),
            buffers: Buffers::new(memory),
            tenants: Vec::new(),
            operations: Vec::new(),
            free: Vec::new(),
            happened: Vec::new(),
            events: Vec::new(),
            watchers: Vec::new(),
            memory_align,
            throttled: Vec::new(),
            flush_failed: false,
            zeroes: true,
            trims,
            last_failure: None,
            next_review: Nanos::ZERO,
            reserved: crate::reservation::Reservations::default(),
            depth_search: None,
            fills_device_first: false,
            sends_from_file: false,
            alone: (u32::MAX, Nanos::ZERO),
            next_depth_look: Nanos::ZERO,
            any_reserved: false,
        }
    }

    /// Adds a tenant; answers with its place.
    pub(crate) fn add_tenant(&mut self, settings: ExportSettings) -> Result<u32, Error> {
        settings.check()?;
        if self.tenants().any(|(_, tenant)| tenant.settings.name == settings.name) {
            return Err(Error::Export { export: settings.name, what: "an export of this name exists already".into() });
        }
        let facts = self.disk.target().facts();
        let (offset, size) = place(&settings, facts.bytes, facts.logical_block)?;
        let others = self.tenants().map(|(_, tenant)| (&tenant.settings, tenant.offset, tenant.size));
        check_overlap(&self.target_name(), others.chain([(&settings, offset, size)]))?;
        let now = self.disk.now();
        let weight = settings.weight;
        let id = self.disk.layer_mut().add_tenant(now, dumbwaiter_block::Tenant { weight, parent: None });
        let id = id.map_err(|e| Error::Export { export: settings.name.clone(), what: e.to_string() })?;
        self.any_reserved |= settings.reservation_iops.is_some();
        let tenant = Tenant::new(settings, id, offset, size);
        let free = self.tenants.iter().position(Option::is_none);
        let index = free.unwrap_or(self.tenants.len());
        match free {
            Some(index) => self.tenants[index] = Some(tenant),
            None => self.tenants.push(Some(tenant)),
        }
        Ok(index as u32)
    }

    /// The target as its user named it.
    pub(crate) fn target_name(&self) -> String {
        self.disk.target().path().display().to_string()
    }

    /// Forgets a tenant that has no connection and nothing under way.
    pub(crate) fn remove_tenant(&mut self, index: u32) {
        if let Some(tenant) = self.tenants.get_mut(index as usize).and_then(Option::take) {
            let now = self.disk.now();
            // It exists: it was added and is removed once.
            let _ = self.disk.layer_mut().retire_tenant(now, tenant.id);
        }
    }

    /// Tenants with their places.
    pub(crate) fn tenants(&self) -> impl Iterator<Item = (u32, &Tenant)> {
        self.tenants.iter().enumerate().filter_map(|(index, tenant)| Some((index as u32, tenant.as_ref()?)))
    }

    pub(crate) fn tenant(&self, index: u32) -> Option<&Tenant> {
        self.tenants.get(index as usize)?.as_ref()
    }

    pub(crate) fn tenant_mut(&mut self, index: u32) -> Option<&mut Tenant> {
        self.tenants.get_mut(index as usize)?.as_mut()
    }

    pub(crate) fn find(&self, name: &str) -> Option<u32> {
        self.tenants().find(|(_, tenant)| tenant.settings.name == name && !tenant.leaving).map(|(index, _)| index)
    }

    /// A client of a tenant comes: it is a task of the scheduler.
    pub(crate) fn add_task(&mut self, tenant: u32) -> Result<TaskId, Error> {
        let now = self.disk.now();
        let id = self.tenant(tenant).ok_or(Error::Gone)?.id;
        let task = Task { tenant: id, ioprio: dumbwaiter_block::Ioprio::DEFAULT };
        self.disk.layer_mut().add_task(now, task).map_err(|e| Error::Settings(e.to_string()))
    }

    /// A client is gone, and nothing of it is under way.
    pub(crate) fn end_task(&mut self, task: TaskId) {
        let now = self.disk.now();
        // It exists: it was added and ends once.
        let _ = self.disk.layer_mut().retire_task(now, task);
    }

    /// Changes the weight of a tenant.
    pub(crate) fn set_weight(&mut self, index: u32, weight: u32) -> Result<(), Error> {
        let Some(tenant) = self.tenant_mut(index) else { return Err(Error::Gone) };
        let changed = ExportSettings { weight, ..tenant.settings.clone() };
        changed.check()?;
        tenant.settings.weight = weight;
        self.apply_weight(index, weight);
        Ok(())
    }

    /// Looks again which tenants have reservations.
    pub(crate) fn note_reservations(&mut self) {
        let any = self.tenants().any(|(_, tenant)| tenant.settings.reservation_iops.is_some());
        self.any_reserved |= any;
    }

    /// Gives the scheduler this weight for a tenant.
    pub(crate) fn apply_weight(&mut self, index: u32, weight: u32) {
        let now = self.disk.now();
        let Some(tenant) = self.tenant_mut(index) else { return };
        if tenant.effective_weight == weight {
            return;
        }
        tenant.effective_weight = weight;
        let id = tenant.id;
        // It exists, and the weight is within the range.
        let _ = self.disk.layer_mut().change_tenant(now, id, dumbwaiter_block::Tenant { weight, parent: None });
    }

    /// A buffer for a request of a tenant; `None` if the tenant must wait until others or itself give some back.
    pub(crate) fn take_buffer(&mut self, tenant: u32, bytes: u32) -> Option<Buffer> {
        let own = self.tenants.get_mut(tenant as usize)?.as_mut()?;
        let buffer = self.buffers.take(bytes as usize, own.memory)?;
        own.memory += buffer.capacity() as u64;
        Some(buffer)
    }

    /// Takes a buffer back.
    pub(crate) fn give_buffer(&mut self, tenant: u32, buffer: Buffer) {
        if let Some(own) = self.tenant_mut(tenant) {
            own.memory -= buffer.capacity() as u64;
        }
        self.buffers.put(buffer);
    }

    /// Watches a descriptor for an owner.
    pub(crate) fn watch(&mut self, fd: BorrowedFd<'_>, interest: Interest, owner: u32) -> Result<WatchId, Error> {
        let watch = self.disk.watch(fd, interest)?;
        if watch.index() >= self.watchers.len() {
            self.watchers.resize(watch.index() + 1, u32::MAX);
        }
        self.watchers[watch.index()] = owner;
        Ok(watch)
    }

    /// Begins a command of a task of a tenant. `data` is as long as the command for a read or a write.
    pub(crate) fn submit(
        &mut self,
        tenant: u32,
        task: TaskId,
        command: Command,
        data: Data,
        token: u64,
    ) -> Result<(), Error> {
        if self.alone.0 != tenant {
            self.alone = (tenant, self.disk.now());
        }
        let (_, length) = command.range();
        let refused = match command {
            Command::Flush => self.flush_failed.then_some(Errno::EIO),
            Command::Zero { fast: true, .. } if !self.zeroes || !self.trims => Some(Errno::EOPNOTSUPP),
            _ => None,
        };
        if refused.is_some() || (length == 0 && command != Command::Flush) {
            self.happened.push(Happened::Done(Done { token, result: refused.map_or(Ok(()), Err), data }));
            return Ok(());
        }
        if let Some(own) = self.tenant_mut(tenant) {
            own.outstanding += 1;
        }
        let since = self.disk.now();
        let operation = Operation { command, stage: Stage::Only, tenant, task, token, since, used: true };
        let number = self.keep(operation);
        let zeroes_by_hand = matches!(command, Command::Zero { .. }) && !(self.zeroes && self.trims);
        if matches!(command, Command::Trim { .. }) && !self.trims {
            return self.finish(number, Ok(()), data);
        }
        if zeroes_by_hand {
            return self.write_zeroes(number, 0);
        }
        self.start(number, command.op(), command.range(), command.fua(), data)
    }

    fn keep(&mut self, operation: Operation) -> u32 {
        match self.free.pop() {
            Some(number) => {
                self.operations[number as usize] = operation;
                number
            }
            None => {
                self.operations.push(operation);
                self.operations.len() as u32 - 1
            }
        }
    }

    /// Sends one I/O of an operation on its way, past the limits of its tenant.
    fn start(&mut self, number: u32, op: Op, (offset, length): (u64, u32), fua: bool, data: Data) -> Result<(), Error> {
        let operation = &self.operations[number as usize];
        let (index, task) = (operation.tenant, operation.task);
        let now = self.disk.now();
        let Some(tenant) = self.tenants.get_mut(index as usize).and_then(Option::as_mut) else {
            return Err(Error::Gone);
        };
        let flush = op == Op::Flush;
        let mut flags = Flags::SYNC;
        if fua && op == Op::Write {
            flags = flags.with(Flags::FUA);
        }
        let io = Io {
            op,
            flags,
            sector: if flush { 0 } else { (tenant.offset + offset) / SECTOR_BYTES },
            sectors: if flush { 0 } else { (u64::from(length) / SECTOR_BYTES) as u32 },
            task,
            tenant: tenant.id,
            token: u64::from(number),
            ..Io::default()
        };
        match tenant.admit(now, io, data) {
            Some((io, data)) => Ok(self.disk.submit(io, data)?),
            None => {
                if tenant.held_back() == 1 {
                    self.throttled.push(index);
                }
                Ok(())
            }
        }
    }

    /// Lets through what limits allow by now.
    fn release(&mut self) -> Result<(), Error> {
        let now = self.disk.now();
        for at in (0..self.throttled.len()).rev() {
            let index = self.throttled[at];
            let Some(tenant) = self.tenants.get_mut(index as usize).and_then(Option::as_mut) else {
                self.throttled.swap_remove(at);
                continue;
            };
            while let Some((io, data)) = tenant.release(now) {
                self.disk.submit(io, data)?;
            }
            if tenant.held_back() == 0 {
                self.throttled.swap_remove(at);
            }
        }
        Ok(())
    }

    /// Nothing is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.operations.len() == self.free.len()
    }

    /// When a limit lets the next I/O through.
    fn next_release(&self) -> Option<Nanos> {
        self.throttled.iter().filter_map(|index| Some(self.tenant(*index)?.opens_at())).min()
    }

    /// Serves: waits until something happened, at most until `deadline`.
    pub(crate) fn turn(&mut self, deadline: Option<Nanos>, happened: &mut Vec<Happened>) -> Result<(), Error> {
        self.release()?;
        self.review_reservations();
        self.search_depth();
        let review = (!self.reserved.is_empty()).then_some(self.next_review);
        let look = (self.depth_search.is_some() && !self.is_idle()).then_some(self.next_depth_look);
        let due = [deadline, self.next_release(), review, look].into_iter().flatten().min();
        let due = if self.happened.is_empty() && self.events.is_empty() { due } else { Some(self.disk.now()) };
        let mut events = std::mem::take(&mut self.events);
        self.disk.turn(due, &mut events)?;
        for event in events.drain(..) {
            match event {
                Event::Completed { finished, data } => {
                    self.completed(finished.io.token as u32, finished.result, data)?;
                }
                Event::RequestFailed(failure) => {
                    self.last_failure = Some(format!(
                        "{} of {} bytes at byte {}: {:?}",
                        failure.op,
                        failure.bytes,
                        failure.at(),
                        failure.outcome
                    ));
                }
                Event::Received { tag, buffer, result } => {
                    self.happened.push(Happened::Received { tag, buffer, result })
                }
                Event::Commanded { tag, result } => self.happened.push(Happened::Commanded { tag, result }),
                Event::Ready { watch, .. } => {
                    let owner = self.watchers.get(watch.index()).copied().unwrap_or(u32::MAX);
                    self.happened.push(Happened::Ready { watch, owner });
                }
                Event::Woken => self.happened.push(Happened::Woken),
            }
        }
        self.events = events;
        if self.fills_device_first && !self.happened.is_empty() && self.disk.layer().queued() > 0 {
            self.disk.send(&mut self.events)?;
        }
        std::mem::swap(&mut self.happened, happened);
        Ok(())
    }

    /// An I/O of an operation is done: the next stage, or the end.
    fn completed(&mut self, number: u32, result: Result<(), Errno>, data: Data) -> Result<(), Error> {
        let Operation { command, stage, .. } = self.operations[number as usize];
        let unsupported = result == Err(Errno::EOPNOTSUPP);
        match (command, stage) {
            (Command::Trim { .. }, Stage::Only) if unsupported => {
                self.trims = false;
                // A trim is a hint.
                return self.finish(number, Ok(()), data);
            }
            (Command::Zero { fast, .. }, Stage::Only) if unsupported => {
                self.zeroes = false;
                return if fast { self.finish(number, result, data) } else { self.write_zeroes(number, 0) };
            }
            (Command::Zero { .. }, Stage::WritingZeroes { done, length }) => {
                let (done, (_, all)) = (done + length, command.range());
                return match result {
                    Ok(()) if done < all => self.write_zeroes(number, done),
                    Ok(()) => self.flush_after(number),
                    Err(_) => self.finish(number, result, Data::Scratch),
                };
            }
            (Command::Trim { .. } | Command::Zero { .. }, Stage::Only) if result.is_ok() => {
                return self.flush_after(number);
            }
            (Command::Flush, _) | (_, Stage::Flushing) if result.is_err() => self.flush_failed = true,
            _ => {}
        }
        self.finish(number, result, data)
    }

    /// A trim or zeroes that must be permanent need a flush.
    fn flush_after(&mut self, number: u32) -> Result<(), Error> {
        if !self.operations[number as usize].command.fua() {
            return self.finish(number, Ok(()), Data::Scratch);
        }
        self.operations[number as usize].stage = Stage::Flushing;
        self.start(number, Op::Flush, (0, 0), false, Data::Scratch)
    }

    /// Writes the next zeroes of a command by hand, from `done` bytes on.
    fn write_zeroes(&mut self, number: u32, done: u32) -> Result<(), Error> {
        let (offset, all) = self.operations[number as usize].command.range();
        let length = Zeroes::portion(all - done);
        let data = self.zeroes_memory.data(number, length);
        self.operations[number as usize].stage = Stage::WritingZeroes { done, length };
        self.start(number, Op::Write, (offset + u64::from(done), length), false, data)
    }

    /// Drops the I/Os of a task that a limit holds back, as no client waits for them any more.
    pub(crate) fn give_up_throttled(&mut self, index: u32, task: TaskId) {
        let Some(tenant) = self.tenant_mut(index) else { return };
        for (io, data) in tenant.give_up(task) {
            self.conclude(io.token as u32, Err(GIVEN_UP), data);
        }
    }

    /// An operation is over.
    fn finish(&mut self, number: u32, result: Result<(), Errno>, data: Data) -> Result<(), Error> {
        self.conclude(number, result, data);
        Ok(())
    }

    fn conclude(&mut self, number: u32, result: Result<(), Errno>, data: Data) {
        let operation = &mut self.operations[number as usize];
        operation.used = false;
        let Operation { command, tenant, token, since, .. } = *operation;
        self.free.push(number);
        let now = self.disk.now();
        if let Some(own) = self.tenants.get_mut(tenant as usize).and_then(Option::as_mut) {
            own.outstanding -= 1;
            let bytes = u64::from(command.range().1);
            let counts = &mut own.counts;
            match command {
                _ if result == Err(GIVEN_UP) => {}
                _ if result.is_err() => counts.errors += 1,
                Command::Read { .. } => {
                    (counts.reads, counts.read_bytes) = (counts.reads + 1, counts.read_bytes + bytes)
                }
                Command::Write { .. } => {
                    (counts.writes, counts.write_bytes) = (counts.writes + 1, counts.write_bytes + bytes);
                }
                Command::Flush => counts.flushes += 1,
                Command::Trim { .. } | Command::Zero { .. } => counts.trims += 1,
            }
            own.latency.add(now.since(since));
        }
        self.happened.push(Happened::Done(Done { token, result, data }));
    }

    /// How long the oldest request of each tenant has waited, by place.
    pub(crate) fn oldest(&self) -> Vec<Nanos> {
        let now = self.disk.now();
        let mut oldest = vec![Nanos::ZERO; self.tenants.len()];
        for operation in self.operations.iter().filter(|operation| operation.used) {
            let of_tenant = &mut oldest[operation.tenant as usize];
            *of_tenant = (*of_tenant).max(now.since(operation.since));
        }
        oldest
    }

    /// Chooses the device depth by trials from now on.
    pub(crate) fn search_depth_from_now(&mut self, largest: u32) {
        let search = DepthSearch::new(largest);
        let (now, depth) = (self.disk.now(), search.depth());
        self.disk.layer_mut().set_device_depth(now, depth);
        (self.depth_search, self.next_depth_look) = (Some(search), now);
    }

    /// The most requests that the device may hold, now or later.
    pub(crate) fn largest_depth(&self) -> u32 {
        let depth = self.disk.layer().config().setup.device_depth;
        self.depth_search.as_ref().map_or(depth, |search| search.largest().max(depth))
    }

    fn search_depth(&mut self) {
        let now = self.disk.now();
        if now < self.next_depth_look || self.depth_search.is_none() {
            return;
        }
        self.next_depth_look = now + depth_search::LOOK;
        let load = depth_search::Load::of(self.tenants());
        let Some(search) = &mut self.depth_search else { return };
        search.look(now, &load);
        let depth = search.depth();
        if depth != self.disk.layer().config().setup.device_depth {
            self.disk.layer_mut().set_device_depth(now, depth);
        }
    }

    fn review_reservations(&mut self) {
        let now = self.disk.now();
        if now < self.next_review || !self.any_reserved {
            return;
        }
        self.next_review = now + RESERVATION_PERIOD;
        let mut reserved = std::mem::take(&mut self.reserved);
        for (index, weight) in reserved.review(now, self.tenants()) {
            self.apply_weight(index, weight);
        }
        self.reserved = reserved;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{DeviceDepth, TargetSettings};
    use crate::test_volume::volume_of;

    #[test]
    fn the_device_has_the_next_request_before_a_client_has_its_reply() {
        for fills_device_first in [true, false] {
            let file = tempfile::NamedTempFile::new().unwrap();
            file.as_file().set_len(1 << 20).unwrap();
            let target = TargetSettings::new(file.path().to_str().unwrap());
            let settings = TargetSettings { device_depth: DeviceDepth::Fixed(1), ..target };
            let mut volume = volume_of(settings);
            volume.fills_device_first = fills_device_first;
            let tenant = volume.add_tenant(ExportSettings::whole("a")).unwrap();
            let task = volume.add_task(tenant).unwrap();
            for token in 0..2 {
                let read = Command::Read { offset: 4096 * token, length: 4096 };
                volume.submit(tenant, task, read, Data::Buffer(Buffer::new(4096)), token).unwrap();
            }
            let mut happened = Vec::new();
            while happened.is_empty() {
                volume.turn(None, &mut happened).unwrap();
            }
            let waiting = u64::from(!fills_device_first);
            assert_eq!((happened.len(), volume.disk.layer().queued()), (1, waiting), "{fills_device_first}");
            happened.clear();
            while happened.is_empty() {
                volume.turn(None, &mut happened).unwrap();
            }
        }
    }
}
