//! A disk with its tenants: commands of any protocol in, results out. Limits, counts and the data's safety are kept here.

use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use dumbwaiter_block::{Errno, Flags, Io, Nanos, Op, SECTOR_BYTES, Scope, Task, TaskId, TenantId};
use dumbwaiter_controllers::{depth_search, limits, search_depth, set_tenant_controls};
use dumbwaiter_path::{Buffer, Data, Disk, Event, Interest, WatchId};

use crate::Error;
use crate::buffers::Buffers;
use crate::event::{ClientEvent, VolumeEvent};
use crate::operation::{Command, Operation, Stage};
use crate::settings::{ExportSettings, check_overlap, place};
use crate::tenant::Tenant;
use crate::zeroes::Zeroes;

/// The result of an I/O that the drive had not when its client was gone.
const GIVEN_UP: Errno = Errno(libc::ESHUTDOWN);

/// A disk with its tenants.
pub(crate) struct Volume {
    pub(crate) disk: Disk,
    /// Dropped after the disk, which writes from it.
    zeroes_memory: Zeroes,
    pub(crate) buffers: Buffers,
    tenants: Vec<Option<Tenant>>,
    operations: Vec<Operation>,
    free: Vec<u32>,
    /// Events since the last turn ended.
    events: Vec<VolumeEvent>,
    pub(crate) disk_events: Vec<Event>,
    /// Owners of watched descriptors, by the watch's index.
    watchers: Vec<u32>,
    /// Alignment of memory for direct I/O, in bytes.
    pub(crate) memory_align: usize,
    /// A flush failed: what was written before may be lost, and no later flush can say otherwise.
    pub(crate) flush_failed: bool,
    /// The device supports zeroing, unless it has refused it.
    zeroes: bool,
    trims: bool,
    pub(crate) last_failure: Option<String>,
    /// The device works by itself: it gets the next requests before clients get their replies, or it would be idle meanwhile.
    pub(crate) fills_device_first: bool,
    /// The target is read through the page cache, whose pages go to sockets.
    pub(crate) sends_from_file: bool,
    /// The tenant of the last request, and since when requests have been its own.
    pub(crate) alone: (u32, Nanos),
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
            events: Vec::new(),
            disk_events: Vec::new(),
            watchers: Vec::new(),
            memory_align,
            flush_failed: false,
            zeroes: true,
            trims,
            last_failure: None,
            fills_device_first: false,
            sends_from_file: false,
            alone: (u32::MAX, Nanos::ZERO),
        }
    }

    /// Adds a tenant; answers with its number.
    pub(crate) fn add_tenant(&mut self, settings: impl Into<Arc<ExportSettings>>) -> Result<u32, Error> {
        let settings = settings.into();
        settings.check()?;
        if self.tenants().any(|(_, tenant)| tenant.settings.name == settings.name) {
            return Err(Error::Export {
                export: settings.name.clone(),
                what: "an export of this name exists already".into(),
            });
        }
        let facts = self.disk.target().facts();
        let (offset, size) = place(&settings, facts.bytes, facts.logical_block)?;
        let others = self.tenants().map(|(_, tenant)| (&*tenant.settings, tenant.offset, tenant.size));
        check_overlap(&self.target_name(), others.chain([(&*settings, offset, size)]))?;
        let now = self.disk.now();
        let weight = settings.weight;
        let id = self.disk.layer_mut().add_tenant(now, dumbwaiter_block::Tenant { weight, parent: None });
        let id = id.map_err(|e| Error::Export { export: settings.name.clone(), what: e.to_string() })?;
        set_tenant_controls(self.disk.layer_mut(), now, id, &settings.limits());
        let tenant = Tenant::new(settings, id, offset, size, now);
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

    pub(crate) fn tenants_mut(&mut self) -> impl Iterator<Item = &mut Tenant> {
        self.tenants.iter_mut().flatten()
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
        let changed = ExportSettings { weight, ..(*tenant.settings).clone() };
        changed.check()?;
        tenant.settings = changed.into();
        let (id, now) = (tenant.id, self.disk.now());
        // It exists, and the weight is within the range.
        let _ = self.disk.layer_mut().change_tenant(now, id, dumbwaiter_block::Tenant { weight, parent: None });
        Ok(())
    }

    /// Gives the settings of a tenant's limits and reservation to the controllers.
    pub(crate) fn apply_limits(&mut self, index: u32) {
        let Some(tenant) = self.tenant(index) else { return };
        let (id, limits, now) = (tenant.id, tenant.settings.limits(), self.disk.now());
        set_tenant_controls(self.disk.layer_mut(), now, id, &limits);
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
            self.events.push(VolumeEvent::completed(token, refused.map_or(Ok(()), Err), data));
            return Ok(());
        }
        let since = self.disk.now();
        if let Some(own) = self.tenant_mut(tenant) {
            own.begin(since);
        }
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

    /// Sends one I/O of an operation on its way.
    fn start(&mut self, number: u32, op: Op, (offset, length): (u64, u32), fua: bool, data: Data) -> Result<(), Error> {
        let operation = &self.operations[number as usize];
        let (index, task) = (operation.tenant, operation.task);
        let Some(tenant) = self.tenant(index) else { return Err(Error::Gone) };
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
        Ok(self.disk.submit(io, data)?)
    }

    /// Nothing is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.operations.len() == self.free.len()
    }

    /// Serves: waits for an event, at most until `deadline`. `events` is empty before.
    pub(crate) fn turn(&mut self, deadline: Option<Nanos>, events: &mut Vec<VolumeEvent>) -> Result<(), Error> {
        let due = if self.events.is_empty() && self.disk_events.is_empty() { deadline } else { Some(self.disk.now()) };
        let mut disk_events = std::mem::take(&mut self.disk_events);
        self.disk.turn(due, &mut disk_events)?;
        for event in disk_events.drain(..) {
            match event {
                Event::Completed { finished, data } => {
                    if let Some(own) = self.tenant_of(finished.io.token as u32) {
                        own.waited(finished.submit, finished.issue);
                    }
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
                    self.notify(tag as u32, ClientEvent::Received { buffer, result });
                }
                Event::Commanded { tag, result } => {
                    self.notify((tag >> 32) as u32, ClientEvent::DriverAnswered { tag: tag as u32, result });
                }
                Event::Ready { watch, .. } => {
                    let owner = self.watchers.get(watch.index()).copied().unwrap_or(u32::MAX);
                    self.notify(owner, ClientEvent::Ready(watch));
                }
                Event::Woken => self.events.push(VolumeEvent::Woken),
            }
        }
        self.disk_events = disk_events;
        if self.fills_device_first && !self.events.is_empty() && self.disk.layer().queued() > 0 {
            self.disk.send(&mut self.disk_events)?;
        }
        std::mem::swap(&mut self.events, events);
        Ok(())
    }

    /// The tenant of an operation.
    fn tenant_of(&mut self, number: u32) -> Option<&mut Tenant> {
        let tenant = self.operations.get(number as usize)?.tenant;
        self.tenant_mut(tenant)
    }

    fn notify(&mut self, owner: u32, event: ClientEvent) {
        self.events.push(VolumeEvent::Of { owner, event });
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
            (Command::Flush, _) | (_, Stage::Flushing) if result.is_err() && result != Err(GIVEN_UP) => {
                self.flush_failed = true;
            }
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

    /// Drops the I/Os of a task that the drive has not, as no client waits for them any more.
    pub(crate) fn give_up(&mut self, task: TaskId) {
        let now = self.disk.now();
        self.disk.layer_mut().abandon(now, task, GIVEN_UP);
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
            own.end(now);
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
            if result != Err(GIVEN_UP) {
                own.latency.add(now.since(since));
            }
        }
        self.events.push(VolumeEvent::completed(token, result, data));
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
        let now = self.disk.now();
        search_depth(self.disk.layer_mut(), now, largest);
    }

    /// Time for which limits have held I/Os of a tenant back, ns, summed over I/Os.
    pub(crate) fn parked_ns(&self, tenant: TenantId) -> u64 {
        let mut parked_ns = 0;
        if let Some(limits) = self.disk.layer().controller(limits::NAME) {
            limits.counters(Scope::Tenant(tenant), &mut |name, count| {
                parked_ns += if name == "limits_parked_ns" { count } else { 0 };
            });
        }
        parked_ns
    }

    /// Counters of the search for a depth, by name; `None` without a search.
    pub(crate) fn depth_search(&self) -> Option<BTreeMap<&'static str, u64>> {
        let search = self.disk.layer().controller(depth_search::NAME)?;
        let mut counters = BTreeMap::new();
        search.counters(Scope::Device, &mut |name, count| _ = counters.insert(name, count));
        Some(counters)
    }

    /// The most requests that the device may hold, now or later.
    pub(crate) fn largest_depth(&self) -> u32 {
        let depth = self.disk.layer().config().setup.device_depth;
        let largest = self.depth_search().and_then(|search| search.get("depth_search_largest").copied());
        largest.map_or(depth, |largest| depth.max(largest as u32))
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
            let mut events = Vec::new();
            while events.is_empty() {
                volume.turn(None, &mut events).unwrap();
            }
            let waiting = u64::from(!fills_device_first);
            assert_eq!((events.len(), volume.disk.layer().queued()), (1, waiting), "{fills_device_first}");
            events.clear();
            while events.is_empty() {
                volume.turn(None, &mut events).unwrap();
            }
        }
    }
}
