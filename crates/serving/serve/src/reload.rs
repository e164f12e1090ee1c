//! A configuration that is read again while the server runs.

use std::sync::Arc;

use crate::Error;
use crate::inspector::Inspector;
use crate::question::{Answer, Question};
use crate::settings::{ExportSettings, ServeSettings, TargetSettings, check_overlap, place};
use crate::shard::Shard;
use crate::state;

impl Inspector {
    /// Makes the exports those of `settings`: weights, limits, reservations, sizes, new exports, and exports that go with their last
    /// client; schedulers and depths of disks. All is checked first; what cannot be changed at run time (addresses, targets, slices,
    /// rights) refuses the whole. A step that fails all the same takes those before it back.
    ///
    /// What commands have set stays where the configuration has not changed. The answer has a line for each of them, and for each that
    /// a change of the configuration replaces.
    pub fn reload(&self, settings: &ServeSettings) -> Result<Vec<String>, Error> {
        settings.check()?;
        let mut configured = self.hold_changes();
        let (targets, mut notes) = state::merge(&configured, &self.served()?, &settings.targets);
        self.change_to(&ServeSettings { targets, ..settings.clone() })?;
        configured.clone_from(&settings.targets);
        notes.extend(self.save(&configured).err().map(|e| format!("the state is not kept for the next start: {e}")));
        Ok(notes)
    }

    /// Takes back what commands have changed since the configuration was read.
    pub(crate) fn reset(&self, configured: &[TargetSettings]) -> Result<(), Error> {
        let settings = ServeSettings { targets: configured.to_vec(), ..self.common.settings.clone() };
        self.change_to(&settings)
    }

    fn change_to(&self, settings: &ServeSettings) -> Result<(), Error> {
        self.check_reload(settings)?;
        let mut before = Vec::new();
        for (number, target) in settings.targets.iter().enumerate() {
            match self.ask_shard(number, Question::Reload(Box::new(target.clone()))) {
                Ok(Answer::Settings(settings)) => before.push(settings),
                refused => {
                    for (number, settings) in before.into_iter().enumerate() {
                        // It had these settings a moment ago.
                        let _ = self.ask_shard(number, Question::Reload(settings));
                    }
                    return Err(refused.err().unwrap_or(Error::Gone));
                }
            }
        }
        Ok(())
    }

    fn check_reload(&self, settings: &ServeSettings) -> Result<(), Error> {
        if let Some(key) = fixed_difference(&self.common.settings, settings) {
            return Err(Error::Settings(format!("`{key}` cannot change while the server runs; restart it")));
        }
        for (number, target) in settings.targets.iter().enumerate() {
            for export in &target.exports {
                if self.common.directory.shard_of(&export.name).is_some_and(|shard| shard != number) {
                    let what =
                        "another target serves this export, which cannot move while the server runs; restart it".into();
                    return Err(Error::Export { export: export.name.clone(), what });
                }
            }
            self.ask_shard(number, Question::CheckReload(Box::new(target.clone())))?;
        }
        Ok(())
    }
}

/// The first setting that differs and cannot be changed while the server runs.
fn fixed_difference(old: &ServeSettings, new: &ServeSettings) -> Option<&'static str> {
    fn targets(settings: &ServeSettings) -> Vec<(&str, crate::Cache)> {
        settings.targets.iter().map(|target| (target.target.as_str(), target.cache)).collect()
    }
    let differences = [
        ("target", targets(old) != targets(new)),
        ("unix", old.unix != new.unix),
        ("tcp", old.tcp != new.tcp),
        ("tls", old.tls != new.tls),
        ("vhost_user", old.vhost_user != new.vhost_user),
        ("control", old.control != new.control),
        ("state", old.state != new.state),
        ("accounts", old.accounts != new.accounts),
        ("http", old.http != new.http),
        ("http_hosts", old.http_hosts != new.http_hosts),
        ("keep_devices", old.keep_devices != new.keep_devices),
        ("max_connections", old.max_connections != new.max_connections),
        ("connection_requests", old.connection_requests != new.connection_requests),
        ("memory", old.memory != new.memory),
        ("emulated_memory", old.emulated_memory != new.emulated_memory),
        ("grace_s", old.grace_s != new.grace_s),
        ("user", old.user != new.user),
    ];
    differences.into_iter().find(|(_, differs)| *differs).map(|(key, _)| key)
}

impl Shard {
    /// Can this disk be changed to these settings?
    pub(crate) fn check_reload(&mut self, target: &TargetSettings) -> Result<(), Error> {
        dumbwaiter_schedulers::Choice::parse(&target.scheduler).map_err(|e| Error::Scheduler(e.to_string()))?;
        let facts = self.volume.disk.target().facts();
        let mut placed = Vec::new();
        for new in &target.exports {
            let (offset, size) = place(new, facts.bytes, facts.logical_block)?;
            self.check_export(new, offset, size)?;
            placed.push((&**new, offset, size));
        }
        check_overlap(&target.target, placed.iter().copied())?;
        self.check_reservations(target.exports.iter().map(Arc::as_ref))?;
        // One that leaves keeps its slice until its last client is gone.
        for (_, tenant) in self.volume.tenants() {
            let stays = !tenant.leaving && target.exports.iter().any(|new| new.name == tenant.settings.name);
            if stays {
                continue;
            }
            let own = (&*tenant.settings, tenant.offset, tenant.size);
            check_overlap(&target.target, placed.iter().copied().chain([own])).map_err(|_| {
                let what =
                    "another export takes its slice while it still has clients; drain it first with `dumbwaiter ctl drain`";
                Error::Export { export: tenant.settings.name.clone(), what: what.into() }
            })?;
        }
        Ok(())
    }

    /// Can this export be changed to these settings, or be added?
    fn check_export(&self, new: &ExportSettings, offset: u64, size: u64) -> Result<(), Error> {
        self.common.settings.check_access(new)?;
        let refuse = |what: &str| Err(Error::Export { export: new.name.clone(), what: what.into() });
        let mut same_name = self.volume.tenants().filter(|(_, tenant)| tenant.settings.name == new.name);
        let Some((index, old)) = same_name.next() else {
            return match new.ublk {
                Some(_) => refuse("the server makes block devices (ublk) only when it starts; restart it"),
                None => Ok(()),
            };
        };
        if old.leaving {
            return refuse("an export of this name is being withdrawn and still has clients; wait until they are gone");
        }
        let fixed = |settings: &ExportSettings| (settings.readonly, settings.block_size);
        if old.offset != offset || fixed(&old.settings) != fixed(new) {
            return refuse("offset, block_size and readonly cannot change while the server runs; restart it");
        }
        if old.settings.ublk != new.ublk {
            return refuse("ublk cannot change while the server runs; restart it");
        }
        if size < old.size && self.refuses_to_shrink(index) {
            return refuse("a virtual machine uses this disk, which cannot shrink meanwhile; stop the machine first");
        }
        Ok(())
    }

    /// The settings as they are now, of the exports that stay.
    pub(crate) fn current_settings(&self) -> TargetSettings {
        let exports = self.volume.tenants().filter(|(_, tenant)| !tenant.leaving);
        TargetSettings {
            scheduler: self.choice.label().to_owned(),
            exports: exports.map(|(_, tenant)| tenant.settings.clone()).collect(),
            ..self.target_settings.clone()
        }
    }

    /// Changes all, or nothing; answers with the settings before.
    pub(crate) fn reload(&mut self, target: &TargetSettings) -> Result<TargetSettings, Error> {
        self.check_reload(target)?;
        let before = self.current_settings();
        if let Err(error) = self.apply_settings(target) {
            // It had these settings a moment ago.
            let _ = self.apply_settings(&before);
            return Err(error);
        }
        Ok(before)
    }

    /// Exports that stay come first: one that shrinks makes room. Those that leave come last: that cannot be taken back.
    fn apply_settings(&mut self, target: &TargetSettings) -> Result<(), Error> {
        let facts = self.volume.disk.target().facts().clone();
        let there = |shard: &Shard, export: &ExportSettings| shard.volume.find(&export.name);
        for new in &target.exports {
            if let Some(index) = there(self, new) {
                let (_, size) = place(new, facts.bytes, facts.logical_block)?;
                self.change_export(index, new, size)?;
            }
        }
        for new in &target.exports {
            if there(self, new).is_none() {
                self.add(new.clone())?;
            }
        }
        if self.choice.label() != target.scheduler {
            self.set_scheduler(&target.scheduler)?;
        }
        if self.target_settings.device_depth != target.device_depth {
            self.set_depth(target.device_depth)?;
        }
        let gone = self.current_settings().exports.into_iter();
        for old in gone.filter(|old| target.exports.iter().all(|new| new.name != old.name)) {
            self.remove(&old.name, false)?;
        }
        Ok(())
    }

    /// Changes settings of an export, or refuses all of them.
    pub(crate) fn set(&mut self, export: &str, settings: &[String]) -> Result<(), Error> {
        let index = self.volume.find(export).ok_or_else(|| Error::NoExport(export.to_owned()))?;
        let Some(own) = self.volume.tenant(index) else { return Err(Error::Gone) };
        if settings.is_empty() {
            return Err(Error::Export {
                export: export.to_owned(),
                what: "expected KEY=VALUE, such as weight=400".into(),
            });
        }
        let new = (*own.settings).clone().with(settings)?;
        let facts = self.volume.disk.target().facts();
        let (offset, size) = place(&new, facts.bytes, facts.logical_block)?;
        self.check_export(&new, offset, size)?;
        self.change_export(index, &new, size)
    }

    /// Changes an export that was checked. Only its size may be refused, by others' slices, and is changed first.
    fn change_export(&mut self, index: u32, new: &ExportSettings, size: u64) -> Result<(), Error> {
        let Some(old) = self.volume.tenant(index) else { return Err(Error::Gone) };
        let (settings, old_size) = (old.settings.clone(), old.size);
        if old_size != size {
            self.resize(&new.name, size)?;
        }
        if settings.weight != new.weight {
            self.volume.set_weight(index, new.weight)?;
        }
        self.change(&new.name, |settings| {
            (settings.limit_iops, settings.limit_bytes) = (new.limit_iops, new.limit_bytes);
            (settings.burst_iops, settings.burst_bytes) = (new.burst_iops, new.burst_bytes);
            (settings.reservation_iops, settings.over_commit) = (new.reservation_iops, new.over_commit);
            (settings.shared, settings.description) = (new.shared, new.description.clone());
            settings.access = new.access.clone();
        })?;
        if (&settings.description, &settings.access) != (&new.description, &new.access) {
            self.publish(index).or_else(|error| {
                // A socket that cannot be opened; what was published stays.
                self.change(&new.name, |own| {
                    (own.access, own.description) = (settings.access.clone(), settings.description.clone());
                })?;
                Err(error)
            })?;
        }
        Ok(())
    }
}
