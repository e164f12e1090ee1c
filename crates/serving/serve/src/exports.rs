//! Exports and the scheduler of a disk, as orders and the configuration change them.

use std::sync::Arc;

use dumbwaiter_block::Handover;
use dumbwaiter_controllers::depth_search;
use dumbwaiter_protocols::nbd::{BlockSizes, wire::transmission};

use crate::Error;
use crate::buffers::LARGEST;
use crate::event::ClientEvent;
use crate::nbd::directory::Entry;
use crate::settings::{Cache, DEVICE_DEPTH, DeviceDepth, ExportSettings, place};
use crate::shard::Shard;

impl Shard {
    /// Offers a tenant to clients, as it is now.
    pub(crate) fn publish(&mut self, tenant: u32) -> Result<(), Error> {
        let Some(own) = self.volume.tenant(tenant) else { return Ok(()) };
        let facts = self.volume.disk.target().facts();
        let settings = &own.settings;
        let mut flags =
            transmission::HAS_FLAGS | transmission::SEND_FLUSH | transmission::SEND_FUA | transmission::CAN_MULTI_CONN;
        if settings.readonly {
            flags |= transmission::READ_ONLY;
        } else {
            flags |= transmission::SEND_TRIM | transmission::SEND_WRITE_ZEROES | transmission::SEND_FAST_ZERO;
        }
        if self.volume.disk.layer().config().setup.rotational {
            flags |= transmission::ROTATIONAL;
        }
        if self.target_settings.cache == Cache::Writeback && self.status.is_some() {
            flags |= transmission::SEND_CACHE;
        }
        let minimum = settings.block_bytes(facts.logical_block);
        let block_sizes = BlockSizes { minimum, preferred: minimum.max(4096), maximum: LARGEST };
        let settings = settings.clone();
        self.common.directory.put(Entry {
            settings,
            size: own.size,
            flags,
            block_sizes,
            shard: self.number,
            tenant,
        })?;
        self.open_socket(tenant)
    }

    /// Withdraws an export from clients that have yet to come.
    pub(crate) fn withdraw(&mut self, tenant: u32) -> Result<(), Error> {
        if let Some(own) = self.volume.tenant(tenant) {
            self.common.directory.remove(&own.settings.name);
        }
        self.close_socket(tenant)
    }

    pub(crate) fn find(&self, export: &str) -> Result<u32, Error> {
        self.volume.find(export).ok_or_else(|| Error::NoExport(export.to_owned()))
    }

    /// Changes the settings of a tenant, or refuses all of the change.
    pub(crate) fn change(&mut self, export: &str, change: impl FnOnce(&mut ExportSettings)) -> Result<(), Error> {
        let index = self.find(export)?;
        let Some(tenant) = self.volume.tenant(index) else { return Err(Error::Gone) };
        let mut settings = (*tenant.settings).clone();
        change(&mut settings);
        settings.check()?;
        self.check_reservations(std::iter::once(&settings))?;
        let Some(tenant) = self.volume.tenant_mut(index) else { return Err(Error::Gone) };
        tenant.settings = settings.into();
        self.volume.apply_limits(index);
        Ok(())
    }

    pub(crate) fn set_scheduler(&mut self, text: &str) -> Result<(), Error> {
        let choice = dumbwaiter_schedulers::Choice::parse(text).map_err(|e| Error::Scheduler(e.to_string()))?;
        let (now, setup) = (self.volume.disk.now(), self.volume.disk.layer().config().setup);
        self.volume.disk.layer_mut().replace(now, crate::scheduler::build(&choice, setup), Handover::Live);
        self.choice = choice;
        self.ordered_switches += 1;
        Ok(())
    }

    /// A setting that a command changed is a part of the scheduler's name from now on.
    pub(crate) fn remember_setting(&mut self, name: &str, value: i64) {
        let own = self.choice.entry().name;
        let settings = self.choice.label().strip_prefix(own).unwrap_or_default().trim_start_matches(':');
        let others = settings.split(',').filter(|pair| !pair.is_empty() && pair.split('=').next() != Some(name));
        let settings: Vec<&str> = others.collect();
        let changed = format!("{name}={value}");
        let text = format!("{own}:{}", settings.into_iter().chain([changed.as_str()]).collect::<Vec<_>>().join(","));
        // A setting that only a running scheduler has cannot be chosen.
        if let Ok(choice) = dumbwaiter_schedulers::Choice::parse(&text) {
            self.choice = choice;
        }
    }

    pub(crate) fn set_depth(&mut self, depth: DeviceDepth) -> Result<(), Error> {
        let (now, most) = (self.volume.disk.now(), self.volume.disk.target().facts().depth.unwrap_or(u32::MAX).max(1));
        let fixed = match depth {
            DeviceDepth::Auto if self.target_settings.device_depth == DeviceDepth::Auto => return Ok(()),
            DeviceDepth::Auto => {
                self.volume.search_depth_from_now(most);
                self.target_settings.device_depth = depth;
                return Ok(());
            }
            DeviceDepth::Default => DEVICE_DEPTH,
            DeviceDepth::Fixed(depth) => match DeviceDepth::fixed(u64::from(depth)) {
                Ok(_) => depth,
                Err(what) => return Err(Error::Settings(what)),
            },
        };
        self.volume.disk.layer_mut().remove_controller(now, depth_search::NAME);
        self.volume.disk.layer_mut().set_device_depth(now, fixed.min(most));
        self.target_settings.device_depth = depth;
        Ok(())
    }

    /// Removes an export once its clients have gone; `hard` ends them, also those of an export that leaves already.
    pub(crate) fn remove(&mut self, export: &str, hard: bool) -> Result<(), Error> {
        let leaving = || self.volume.tenants().find(|(_, tenant)| hard && tenant.settings.name == export);
        let index = self.find(export).or_else(|error| leaving().map(|(index, _)| index).ok_or(error))?;
        if self.volume.tenant(index).is_some_and(|tenant| !tenant.leaving) {
            self.withdraw(index)?;
        }
        let Some(tenant) = self.volume.tenant_mut(index) else { return Err(Error::Gone) };
        tenant.leaving = true;
        if tenant.connections == 0 {
            self.volume.remove_tenant(index);
        } else if hard {
            self.disconnect_tenant(index)?;
        }
        Ok(())
    }

    /// Takes clients of an export again that was to go.
    pub(crate) fn undrain(&mut self, export: &str) -> Result<(), Error> {
        let leaving = self.volume.tenants().find(|(_, tenant)| tenant.settings.name == export && tenant.leaving);
        let Some((index, _)) = leaving else {
            return Err(match self.volume.find(export) {
                Some(_) => Error::Export { export: export.to_owned(), what: "it is not being drained".into() },
                None => Error::NoExport(export.to_owned()),
            });
        };
        if let Some(tenant) = self.volume.tenant_mut(index) {
            tenant.leaving = false;
        }
        self.publish(index)
    }

    pub(crate) fn add(&mut self, export: Arc<ExportSettings>) -> Result<(), Error> {
        if export.ublk.is_some() {
            let what =
                "the server makes block devices (ublk) only when it starts; put it into the configuration and restart"
                    .into();
            return Err(Error::Export { export: export.name.clone(), what });
        }
        self.common.settings.check_access(&export)?;
        self.check_reservations(std::iter::once(&*export))?;
        let index = self.volume.add_tenant(export)?;
        self.publish(index).inspect_err(|_| {
            if let Some(tenant) = self.volume.tenant(index) {
                self.common.directory.remove(&tenant.settings.name);
            }
            self.volume.remove_tenant(index);
        })
    }

    /// Has the tenant a client whose disk must not become smaller?
    pub(crate) fn refuses_to_shrink(&self, index: u32) -> bool {
        self.clients.iter().flatten().any(|client| client.info().tenant == index && !client.info().may_shrink)
    }

    /// A tenant's size changes for NBD clients that come from now on; those that are there may use no more than before, and no more
    /// than there is. A virtual machine gets a notification, and its disk grows.
    pub(crate) fn resize(&mut self, export: &str, size: u64) -> Result<(), Error> {
        let index = self.find(export)?;
        let facts = self.volume.disk.target().facts().clone();
        let Some(tenant) = self.volume.tenant(index) else { return Err(Error::Gone) };
        let settings = ExportSettings { size: Some(size), ..(*tenant.settings).clone() };
        settings.check()?;
        let (offset, size) = place(&settings, facts.bytes, facts.logical_block)?;
        let others = self.volume.tenants().filter(|(other, _)| *other != index);
        let others = others.map(|(_, other)| (&*other.settings, other.offset, other.size));
        crate::settings::check_overlap(&self.volume.target_name(), others.chain([(&settings, offset, size)]))?;
        let smaller = size < tenant.size;
        let refuses = self.refuses_to_shrink(index);
        if smaller && refuses {
            let what = "a virtual machine uses this disk, which cannot shrink meanwhile; stop the machine first".into();
            return Err(Error::Export { export: export.to_owned(), what });
        }
        if let Some(tenant) = self.volume.tenant_mut(index) {
            (tenant.size, tenant.settings) = (size, settings.into());
        }
        for client in self.clients.iter_mut().flatten().filter(|client| client.info().tenant == index) {
            client.handle(ClientEvent::Resized(size), &mut self.volume)?;
        }
        self.publish(index)
    }
}
