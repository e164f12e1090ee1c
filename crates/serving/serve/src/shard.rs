//! A disk's thread from its own side: its clients, and what it keeps of them.

use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Instant;

use dumbwaiter_block::Nanos;
use dumbwaiter_schedulers::Choice;

use crate::Error;
use crate::client::Client;
use crate::event::ClientEvent;
use crate::message::{Common, Message};
use crate::nbd::status::StatusThread;
use crate::settings::TargetSettings;
use crate::shares::ShareWindow;
use crate::spinner::Spinner;
use crate::vhost_user::DeviceSocket;
use crate::volume::Volume;

/// The state of a disk's thread.
pub(crate) struct Shard {
    pub(crate) number: usize,
    pub(crate) target_settings: TargetSettings,
    pub(crate) volume: Volume,
    pub(crate) clients: Vec<Option<Box<dyn Client>>>,
    pub(crate) free: Vec<u32>,
    /// Connections to be looked at in this turn.
    pub(crate) touched: Vec<u32>,
    pub(crate) is_touched: Vec<bool>,
    pub(crate) awaits_memory: Vec<u32>,
    /// Clients that announce nothing until they are asked to.
    pub(crate) notifications_off: Vec<u32>,
    pub(crate) spinner: Spinner,
    /// The sleep that comes tells how long to look the next time.
    pub(crate) idle_before_sleep: bool,
    /// Requests that share it, where clients without notifications have made them.
    pub(crate) share_sleep: u64,
    /// Requests submitted before it.
    pub(crate) submitted: u64,
    /// Clients that are looked at in each turn.
    pub(crate) polled: Vec<u32>,
    /// Sockets for virtual machines, by the tenant's number.
    pub(crate) sockets: Vec<Option<DeviceSocket>>,
    pub(crate) status: Option<StatusThread>,
    pub(crate) messages: Receiver<Message>,
    pub(crate) common: Arc<Common>,
    pub(crate) shares: ShareWindow,
    /// The most I/Os that it has served in a second: what the drive has shown.
    pub(crate) most_iops: u64,
    /// Time is that of the machine.
    pub(crate) is_real: bool,
    pub(crate) ticks: u64,
    pub(crate) choice: Choice,
    /// Exchanges of the scheduler by orders.
    pub(crate) ordered_switches: u64,
    pub(crate) next_tick: Nanos,
    /// When clients must be gone.
    pub(crate) shut_down_by: Option<Nanos>,
    pub(crate) started: Instant,
}

impl Shard {
    /// A line about a tenant.
    pub(crate) fn log_about(&self, tenant: u32, line: &str) {
        let name = self.volume.tenant(tenant).map(|own| own.settings.name.as_str()).unwrap_or_default();
        let subject = format!("export `{name}`");
        self.common.log.about(&subject, &format!("{subject}: {line}"));
    }

    pub(crate) fn is_over(&self) -> bool {
        self.shut_down_by.is_some() && self.clients.iter().all(Option::is_none)
    }

    /// Gives a client an event and looks after it in this turn; it may be gone.
    pub(crate) fn notify_client(&mut self, index: u32, event: ClientEvent) -> Result<(), Error> {
        if let Some(client) = self.clients.get_mut(index as usize).and_then(Option::as_mut) {
            client.handle(event, &mut self.volume)?;
            self.touch(index);
        }
        Ok(())
    }

    pub(crate) fn touch(&mut self, index: u32) {
        if let Some(touched) = self.is_touched.get_mut(index as usize)
            && !std::mem::replace(touched, true)
        {
            self.touched.push(index);
        }
    }

    /// A client comes; answers with its number.
    pub(crate) fn admit(&mut self, mut client: Box<dyn Client>) -> u32 {
        if let Some(own) = self.volume.tenant_mut(client.info().tenant) {
            own.connections += 1;
            own.counts.connects += 1;
        }
        let index = self.free.pop().unwrap_or_else(|| {
            self.clients.push(None);
            self.is_touched.push(false);
            self.clients.len() as u32 - 1
        });
        client.info_mut().index = index;
        self.clients[index as usize] = Some(client);
        self.touch(index);
        index
    }

    /// Drops the clients of a tenant.
    pub(crate) fn disconnect_tenant(&mut self, tenant: u32) -> Result<(), Error> {
        self.drop_where(|client| client.info().tenant == tenant)
    }

    pub(crate) fn drop_where(&mut self, which: impl Fn(&dyn Client) -> bool) -> Result<(), Error> {
        for index in 0..self.clients.len() as u32 {
            if self.clients[index as usize].as_ref().is_some_and(|client| which(&**client)) {
                self.notify_client(index, ClientEvent::Drop(None))?;
            }
        }
        Ok(())
    }
}
