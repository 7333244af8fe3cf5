//! Common queries of the state, and preparation of the next OSD map.

use super::{ALLOWED_CIPHERS, ConfigSubject, MonState, PREFERRED_CIPHER, SERVICE_CIPHER};
use crate::update::Update;
use auth::KeyKind;
use osdmap::{Incremental, OsdMap, PgPool};
use types::{Epoch, OsdId, PgId, PoolId, Utime};
use wire::{Encode, Target};

impl MonState {
    /// Returns the newest OSD map.
    pub fn osdmap(&self) -> &OsdMap {
        self.osdmaps.current()
    }

    /// Returns an increment that leads to the next epoch and changes nothing yet.
    pub fn next_incremental(&self, now: Utime) -> Incremental {
        Incremental::after(self.osdmap(), now)
    }

    /// Returns the update for an increment made from [`MonState::next_incremental`] of this very state, or `None` if it
    /// changes nothing.
    ///
    /// Panics if it does not apply: the caller that filled it in contradicted the map.
    pub fn osd_update(&self, incremental: Incremental) -> Option<Update> {
        (!incremental.is_empty()).then(|| self.next_osd_map(incremental))
    }

    /// Returns the increment as an update, even if it changes nothing but the epoch.
    pub fn next_osd_map(&self, incremental: Incremental) -> Update {
        let mut incremental = incremental;
        let applied = |incremental: &Incremental| {
            let mut next = self.osdmap().clone();
            next.apply(incremental).unwrap_or_else(|e| panic!("increment does not apply: {e}"));
            next
        };
        let mut next = applied(&incremental);
        if self.osdmap().end_orders(&next, &mut incremental) {
            next = applied(&incremental);
        }
        let full_crc = next.checksum(Target::PACIFIC);
        let sealed = Incremental { full_crc, ..incremental };
        Update::OsdMap(sealed.to_vec(Target::PACIFIC).into())
    }

    /// Returns true if the group belongs to a pool.
    pub fn pg_exists(&self, pg: PgId) -> bool {
        self.osdmap().has_pg(pg)
    }

    /// Returns the epoch in which a pool was made.
    pub fn pool_created(&self, id: PoolId, pool: &PgPool) -> Epoch {
        self.pools_created.get(&id).copied().unwrap_or(pool.last_change)
    }

    /// Returns the host an OSD stands on: its CRUSH host, else the name it gave itself, else a name of its own.
    pub fn host_of(&self, osd: OsdId) -> String {
        let location = self.osdmap().crush.full_location(osd.0);
        if let Some((_, name)) = location.iter().find(|(kind, _)| *kind == "host") {
            return (*name).to_owned();
        }
        let said = self.osd_metadata.get(&osd).and_then(|metadata| metadata.get("hostname"));
        said.cloned().unwrap_or_else(|| osd.to_string())
    }

    /// Returns the party `kind`.`id` as options see it. `host`: the name of the machine that it is on, if known.
    pub fn config_subject<'a>(&'a self, kind: &'a str, id: &'a str, host: Option<&'a str>) -> ConfigSubject<'a> {
        let crush = &self.osdmap().crush;
        let osd = id.parse().ok().filter(|_| kind == "osd");
        let mut location = osd.map(|osd| crush.full_location(osd)).unwrap_or_default();
        let known = location.iter().any(|(kind, _)| *kind == "host");
        if let Some(host) = host.filter(|_| !known) {
            location.insert(0, ("host", host));
            let above = crush.buckets().find(|bucket| crush.name(bucket.id) == Some(host));
            location.extend(above.map(|bucket| crush.full_location(bucket.id)).into_iter().flatten());
        }
        ConfigSubject { kind, id, location, device_class: osd.and_then(|osd| crush.class_of(osd)) }
    }

    /// Returns an option of the manager's work, which the monitor called `name` does here, if it is set.
    pub fn manager_option(&self, name: &str, option: &str) -> Option<&str> {
        self.config.option_of("mgr", name, option)
    }

    /// Returns an option as it applies to the monitor called `name`, if it is set. A value that a command has set at
    /// this monitor goes before.
    pub fn mon_option(&self, name: &str, option: &str) -> Option<&str> {
        self.overrides.get(option).map(String::as_str).or_else(|| self.config.option_of("mon", name, option))
    }

    /// Returns a number from an option as it applies to all monitors, if it is set and one.
    pub fn mon_number<T: std::str::FromStr>(&self, option: &str) -> Option<T> {
        self.mon_option("", option)?.parse().ok()
    }

    /// Returns the kinds of keys by which somebody is let in.
    pub fn allowed_kinds(&self) -> Vec<KeyKind> {
        let mut kinds = self.config.allowed_kinds();
        // A value that one monitor was told lets more in, for who would be shut out otherwise, and never less.
        let told = self.overrides.get(ALLOWED_CIPHERS).and_then(|text| KeyKind::list(text).ok()).unwrap_or_default();
        for kind in told {
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
        }
        kinds
    }

    /// Returns the kind of new keys: the one that is preferred if it is allowed, else the strongest that is.
    pub fn preferred_kind(&self) -> KeyKind {
        let allowed = self.allowed_kinds();
        let preferred = self.mon_option("", PREFERRED_CIPHER).and_then(|text| text.parse().ok());
        let preferred = preferred.unwrap_or(KeyKind::Aes);
        if allowed.contains(&preferred) { preferred } else { allowed.into_iter().max().unwrap_or(preferred) }
    }

    /// Returns the kind of secrets that seal tickets.
    pub fn kind_of_secrets(&self) -> KeyKind {
        let set = self.mon_option("", SERVICE_CIPHER).and_then(|text| text.parse().ok());
        set.unwrap_or(KeyKind::Aes256k)
    }
}
