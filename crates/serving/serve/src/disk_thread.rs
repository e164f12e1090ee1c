//! The thread of one disk: sockets and device in one ring, one turn after another.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;
use std::time::Instant;

use dumbwaiter_block::Nanos;
use dumbwaiter_path::{Disk, DiskOptions, Kind, Waker};
use dumbwaiter_protocols::nbd::{Agreement, Rules};
use dumbwaiter_schedulers::Choice;
use rustix::fd::OwnedFd;

use crate::Error;
use crate::client::{Client, ServeContext};
use crate::event::{ClientEvent, VolumeEvent};
use crate::message::{Common, Message};
use crate::nbd::connection::Connection;
use crate::nbd::status::{StatusAnswer, StatusThread};
use crate::open_target::OpenTarget;
use crate::settings::{DeviceDepth, TargetSettings};
use crate::shard::Shard;
use crate::shares::ShareWindow;
use crate::spinner::Spinner;
use crate::vhost_user::SOCKET_OWNER;
use crate::volume::Volume;

/// How often time-outs are looked at and shares are counted.
const TICK: Nanos = Nanos::from_secs(1);
/// Looks at clients without notifications between two turns of the disk.
const MAX_LOOKS: u32 = 4;
/// With more clients without notifications than this a look at all of them takes longer than a sleep saves.
const MAX_SPUN: usize = 8;
/// Requests that one system call submits on a target behind the page cache, for virtual machines: 8 % more IOPS at depth 32 than with no bound.
const CACHED_BATCH: u32 = 16;
/// How often clients are looked at whose requests nothing announces.
const POLL_INTERVAL: Nanos = Nanos::from_us(100);

impl Shard {
    /// The disk with its exports, on the thread that will serve it.
    pub(crate) fn open(
        number: usize,
        target_settings: TargetSettings,
        open: OpenTarget,
        messages: Receiver<Message>,
        common: Arc<Common>,
    ) -> Result<(Shard, Waker), Error> {
        let choice = Choice::parse(&target_settings.scheduler)
            .map_err(|e| Error::Scheduler(format!("{}: {e}", target_settings.target)))?;
        let config = open.layer_config(&target_settings);
        let scheduler = crate::scheduler::build(&choice, config.setup);
        let is_file = open.device.is_none() && open.target.facts().kind == Kind::File;
        let direct = open.device.is_none() && open.target.facts().direct;
        let memory_align = if direct { open.target.facts().logical_block as usize } else { 1 };
        let emulated = open.device.is_some();
        let device = open.device.map(|device| device as Box<dyn dumbwaiter_path::VirtualDevice>);
        let manual_clock = open.manual_clock;
        let submit_batch = if direct || device.is_some() { u32::MAX } else { CACHED_BATCH };
        let options = DiskOptions {
            scratch: true,
            bypass_workers: true,
            submit_batch,
            device,
            manual_clock,
            ..DiskOptions::default()
        };
        let mut disk = Disk::new(open.target, config, scheduler, dumbwaiter_block::Tenants::default(), options)?;
        let waker = disk.waker()?;
        let again = || disk.target().file().try_clone().map_err(Error::io("cannot open the target a second time"));
        let status = if is_file { Some(StatusThread::start(again()?, waker.clone())?) } else { None };
        let mut volume = Volume::new(disk, common.settings.memory, open.trims, memory_align);
        volume.fills_device_first = direct;
        volume.sends_from_file = !direct && !emulated;
        if target_settings.device_depth == DeviceDepth::Auto {
            volume.search_depth_from_now(config.setup.device_depth);
        }
        let most_iops = common.shown_iops.get(number).copied().unwrap_or(0);
        let mut shard = Shard {
            number,
            target_settings,
            volume,
            clients: Vec::new(),
            free: Vec::new(),
            touched: Vec::new(),
            is_touched: Vec::new(),
            awaits_memory: Vec::new(),
            notifications_off: Vec::new(),
            spinner: if manual_clock { Spinner::never() } else { Spinner::default() },
            idle_before_sleep: false,
            share_sleep: 0,
            submitted: 0,
            polled: Vec::new(),
            sockets: Vec::new(),
            status,
            messages,
            common,
            shares: ShareWindow::default(),
            most_iops,
            is_real: !manual_clock,
            ticks: 0,
            choice,
            ordered_switches: 0,
            next_tick: TICK,
            shut_down_by: None,
            started: Instant::now(),
        };
        shard.offer_all()?;
        Ok((shard, waker))
    }

    /// Adds the exports of the settings and offers them to clients.
    fn offer_all(&mut self) -> Result<(), Error> {
        // From now on the tenants have them.
        let exports = std::mem::take(&mut self.target_settings.exports);
        self.check_reservations(exports.iter().map(Arc::as_ref))?;
        for export in exports {
            self.volume.add_tenant(export)?;
        }
        let tenants: Vec<u32> = self.volume.tenants().map(|(tenant, _)| tenant).collect();
        for tenant in tenants {
            self.publish(tenant)?;
        }
        Ok(())
    }

    /// Serves until it is shut down. `true` if all that was acknowledged is safe.
    pub(crate) fn run(&mut self) -> Result<bool, Error> {
        let mut events = Vec::new();
        while !self.is_over() {
            self.turn(Nanos::MAX, &mut events)?;
        }
        let is_file = self.status.is_some() || self.volume.disk.target().facts().kind == Kind::Device;
        let writable = self.volume.disk.target().options().allow_writes;
        let virtual_device = self.volume.disk.target().path().starts_with("/dev/null");
        let synced = !is_file || !writable || virtual_device || sync(self.volume.disk.target().file());
        Ok(synced && !self.volume.flush_failed)
    }

    /// One turn: waits for an event, at most until `until`, and serves the clients that it concerns. `events` is empty before and after.
    pub(crate) fn turn(&mut self, until: Nanos, events: &mut Vec<VolumeEvent>) -> Result<(), Error> {
        let deadline = if self.take_news()? { self.volume.disk.now() } else { self.next_look().min(until) };
        let asleep = std::mem::take(&mut self.idle_before_sleep).then(Instant::now);
        self.volume.turn(Some(deadline), events)?;
        if let Some(since) = asleep {
            self.spinner.slept(since.elapsed(), self.share_sleep);
        }
        for event in events.drain(..) {
            self.handle(event)?;
        }
        self.serve_touched()?;
        if self.volume.disk.now() >= self.next_tick {
            self.tick()?;
        }
        Ok(())
    }

    fn handle(&mut self, event: VolumeEvent) -> Result<(), Error> {
        match event {
            VolumeEvent::Of { owner, .. } if owner & SOCKET_OWNER != 0 => self.accept(owner & !SOCKET_OWNER),
            VolumeEvent::Of { owner, event } => self.notify_client(owner, event),
            VolumeEvent::Woken => {
                while let Ok(message) = self.messages.try_recv() {
                    self.receive_message(message)?;
                }
                while let Some(answer) = self.status.as_ref().and_then(|status| status.answers.try_recv().ok()) {
                    let StatusAnswer { token, extents } = answer;
                    self.notify_client(
                        (token >> 32) as u32,
                        ClientEvent::ExtentsFound { token: token as u32, extents },
                    )?;
                }
                Ok(())
            }
        }
    }

    /// Takes what clients without notifications have, a few times over, until they announce the rest. `true` if there is more to do.
    fn take_news(&mut self) -> Result<bool, Error> {
        for _ in 0..MAX_LOOKS {
            if !self.has_news()? {
                return Ok(false);
            }
            if self.volume.disk.has_news() {
                return Ok(true);
            }
        }
        Ok(true)
    }

    /// Looks at sockets and at clients that announce nothing, as long as the disk has nothing to do, and asks those clients to announce
    /// their requests before this thread sleeps. `true` if there was something.
    fn has_news(&mut self) -> Result<bool, Error> {
        let idle = self.volume.is_idle() && self.touched.is_empty();
        let Shard { notifications_off, clients, spinner, volume, .. } = self;
        if idle && spinner.is_on() {
            volume.disk.hand_over()?;
        }
        let offered = |index: &u32| clients[*index as usize].as_ref().map_or(0, |client| client.offered());
        let disk = &mut volume.disk;
        let news = || notifications_off.iter().map(offered).sum::<u32>() + u32::from(disk.has_news());
        if idle && notifications_off.len() <= MAX_SPUN && spinner.look(news) {
            for at in 0..self.notifications_off.len() {
                self.touch(self.notifications_off[at]);
            }
            self.serve_touched()?;
            return Ok(true);
        }
        self.idle_before_sleep = idle;
        let submitted = self.volume.disk.layer().ledger().submitted;
        let since_last = submitted - std::mem::replace(&mut self.submitted, submitted);
        self.share_sleep = if self.notifications_off.is_empty() { 0 } else { since_last };
        for index in std::mem::take(&mut self.notifications_off) {
            if self.clients[index as usize].as_mut().is_some_and(|client| client.turn_notifications_on()) {
                self.touch(index);
            }
        }
        let any = !self.touched.is_empty();
        self.serve_touched()?;
        Ok(any)
    }

    /// When clients must be looked at, whatever happens.
    fn next_look(&mut self) -> Nanos {
        for index in std::mem::take(&mut self.polled) {
            self.touch(index);
            self.polled.push(index);
        }
        match (self.touched.is_empty(), self.polled.is_empty()) {
            (true, true) => self.next_tick,
            (false, true) => self.volume.disk.now(),
            (_, false) => self.next_tick.min(self.volume.disk.now() + POLL_INTERVAL),
        }
    }

    pub(crate) fn receive_message(&mut self, message: Message) -> Result<(), Error> {
        match message {
            Message::Connection { socket, peer, tenant, agreement } => self.connect(socket, peer, tenant, &agreement),
            Message::Ask(question, answer) => {
                // Who asked may be gone.
                let _ = answer.send(self.answer(question));
                Ok(())
            }
            Message::Attach(attachment) => self.attach(*attachment),
            Message::ShutDown { grace } => {
                self.shut_down_by = Some(self.volume.disk.now() + Nanos(grace.as_nanos() as u64));
                self.close_sockets()?;
                (0..self.clients.len() as u32).try_for_each(|index| self.notify_client(index, ClientEvent::Finish))
            }
            Message::Abandon => {
                self.shut_down_by = Some(self.volume.disk.now());
                self.close_sockets()?;
                self.drop_all()
            }
        }
    }

    fn connect(&mut self, socket: OwnedFd, peer: String, tenant: u32, agreement: &Agreement) -> Result<(), Error> {
        let name = &agreement.export.name;
        let same = self.volume.tenant(tenant).is_some_and(|own| own.settings.name == *name && !own.leaving);
        // One tenant's clients do not keep those of others out.
        let own = self.volume.tenant(tenant).map_or(0, |own| own.connections);
        let full = own >= self.common.settings.tenant_connections();
        if !same || full || self.shut_down_by.is_some() {
            if full {
                self.log_about(tenant, &format!("refused {peer}: the export has {own} connections already"));
            }
            self.common.connections.fetch_sub(1, Ordering::Relaxed);
            return Ok(());
        }
        let task = self.volume.add_task(tenant)?;
        let rules = Rules {
            size: agreement.export.size,
            flags: agreement.export.flags,
            block_sizes: agreement.export.block_sizes,
            structured: agreement.structured,
            allocation: agreement.allocation,
        };
        let connection = Connection::new(socket, peer, tenant, task, rules, &agreement.rest);
        self.admit(Box::new(connection));
        Ok(())
    }

    /// Looks after connections for which something happened: requests in, replies out, the next receive.
    fn serve_touched(&mut self) -> Result<(), Error> {
        if !self.touched.is_empty() && !self.awaits_memory.is_empty() {
            for index in std::mem::take(&mut self.awaits_memory) {
                self.touch(index);
            }
        }
        let touched = std::mem::take(&mut self.touched);
        for index in &touched {
            self.is_touched[*index as usize] = false;
            self.serve(*index)?;
        }
        // Clients touched meanwhile are kept for the next turn.
        let mut again = std::mem::replace(&mut self.touched, touched);
        self.touched.clear();
        self.touched.append(&mut again);
        Ok(())
    }

    fn serve(&mut self, index: u32) -> Result<(), Error> {
        let Some(client) = self.clients[index as usize].as_mut() else { return Ok(()) };
        let mut context = ServeContext {
            volume: &mut self.volume,
            status: &self.status,
            most: self.common.settings.connection_requests,
            draining: self.shut_down_by.is_some(),
        };
        let state = client.serve(&mut context)?;
        if state.awaits_memory {
            self.awaits_memory.push(index);
        }
        if state.is_over
            && let Some(client) = self.clients[index as usize].take()
        {
            self.polled.retain(|other| *other != index);
            self.notifications_off.retain(|other| *other != index);
            self.disconnect(client)?;
            self.free.push(index);
            return Ok(());
        }
        if state.polled != self.polled.contains(&index) {
            self.polled.retain(|other| *other != index);
            self.polled.extend(state.polled.then_some(index));
        }
        if state.notifications_off && !self.notifications_off.contains(&index) {
            self.notifications_off.push(index);
        }
        if state.again {
            self.touch(index);
        }
        Ok(())
    }

    fn disconnect(&mut self, mut client: Box<dyn Client>) -> Result<(), Error> {
        let (tenant, violation) = (client.info().tenant, client.info().violation);
        self.log_notes(&mut *client);
        if let Some(why) = violation {
            let line = format!("disconnected {}, which broke the protocol: {why}", client.info().peer);
            self.log_about(tenant, &line);
        }
        client.close(&mut self.volume)?;
        self.common.connections.fetch_sub(1, Ordering::Relaxed);
        let Some(own) = self.volume.tenant_mut(tenant) else { return Ok(()) };
        own.connections -= 1;
        own.counts.violations += u64::from(violation.is_some());
        if own.leaving && own.connections == 0 {
            self.volume.remove_tenant(tenant);
            return Ok(());
        }
        self.accept(tenant)
    }

    fn log_notes(&self, client: &mut dyn Client) {
        for note in std::mem::take(&mut client.info_mut().notes) {
            self.log_about(client.info().tenant, &format!("{}: {note}", client.info().peer));
        }
    }

    fn drop_all(&mut self) -> Result<(), Error> {
        self.drop_where(|_| true)?;
        self.serve_touched()
    }

    /// Once a second: shares, memory without use, time-outs, failures.
    fn tick(&mut self) -> Result<(), Error> {
        self.next_tick = self.volume.disk.now() + TICK;
        self.note_shares();
        self.volume.buffers.trim();
        if let Some(failure) = self.volume.last_failure.take() {
            let target = &self.target_settings.target;
            self.common.log.about(target, &format!("{target}: {failure}"));
        }
        self.common.log.end_periods();
        for index in 0..self.clients.len() as u32 {
            let Some(mut client) = self.clients[index as usize].take() else { continue };
            self.log_notes(&mut *client);
            let complaint = client.complaint(self.volume.disk.now());
            self.clients[index as usize] = Some(client);
            if complaint.is_some() {
                self.notify_client(index, ClientEvent::Drop(complaint))?;
            }
        }
        match self.shut_down_by {
            Some(by) if self.volume.disk.now() >= by => self.drop_all(),
            _ => self.serve_touched(),
        }
    }
}

/// Makes what was written permanent.
fn sync(file: &std::fs::File) -> bool {
    match file.sync_data() {
        Ok(()) => true,
        // Nothing that can be flushed.
        Err(e) => e.raw_os_error() == Some(rustix::io::Errno::INVAL.raw_os_error()),
    }
}
