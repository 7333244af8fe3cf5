//! The whole state as bytes, which stand for the beginning of the log.

use super::{MonState, tickets};
use wire::{Decode, DecodeError, Encode, Reader, Writer};

/// Versions of the encoding of [`MonState`]. Each has all fields of those before it.
mod form {
    /// Ends with the health mutes.
    pub const PLAIN: u8 = 1;
    /// Adds the monitors' servers and the manager.
    pub const SERVERS: u8 = 2;
    /// Adds that the state may be behind.
    pub const IN_DOUBT: u8 = 3;
    /// Adds the secrets of services.
    pub const SECRETS: u8 = 4;
    /// Adds the tasks about images.
    pub const IMAGE_TASKS: u8 = 5;
}

impl Encode for MonState {
    fn encode(&self, w: &mut Writer) {
        // The fields are named one by one, so that a field that is added and forgotten here does not compile.
        let MonState {
            applied,
            stamp,
            fsid,
            monmap,
            osdmaps,
            config,
            config_keys,
            auth,
            osd_metadata,
            mon_metadata,
            pgs,
            pools_created,
            global_ids_below,
            log,
            health_mutes,
            mon_servers,
            founder,
            former_servers,
            manager,
            in_doubt,
            service_secrets,
            image_tasks,
            overrides: _,
        } = self;
        w.versioned(form::IMAGE_TASKS, form::PLAIN, |w| {
            w.u64(*applied);
            w.put(stamp);
            w.put(fsid);
            w.put(monmap);
            w.put(osdmaps);
            w.put(config);
            w.put(config_keys);
            w.put(auth);
            w.put(osd_metadata);
            w.put(mon_metadata);
            w.put(pgs);
            w.put(pools_created);
            w.u64(*global_ids_below);
            w.put(log);
            w.put(health_mutes);
            w.put(mon_servers);
            w.u64(*founder);
            w.put(former_servers);
            w.put(manager);
            w.bool(*in_doubt);
            tickets::put(w, service_secrets);
            w.put(image_tasks);
        });
    }
}

impl Decode for MonState {
    fn decode(r: &mut Reader<'_>) -> Result<MonState, DecodeError> {
        let (head, mut r) = r.versioned("monitor state", form::IMAGE_TASKS)?;
        let has_servers = head.version >= form::SERVERS;
        Ok(MonState {
            applied: r.u64()?,
            stamp: r.get()?,
            fsid: r.get()?,
            monmap: r.get()?,
            osdmaps: r.get()?,
            config: r.get()?,
            config_keys: r.get()?,
            auth: r.get()?,
            osd_metadata: r.get()?,
            mon_metadata: r.get()?,
            pgs: r.get()?,
            pools_created: r.get()?,
            global_ids_below: r.u64()?,
            log: r.get()?,
            health_mutes: r.get()?,
            mon_servers: if has_servers { r.get()? } else { Default::default() },
            founder: if has_servers { r.u64()? } else { 0 },
            former_servers: if has_servers { r.get()? } else { Default::default() },
            manager: if has_servers { r.get()? } else { Default::default() },
            in_doubt: if head.version >= form::IN_DOUBT { r.bool()? } else { false },
            service_secrets: if head.version >= form::SECRETS { tickets::get(&mut r)? } else { Default::default() },
            image_tasks: if head.version >= form::IMAGE_TASKS { r.get()? } else { Default::default() },
            overrides: Default::default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::Target;

    /// Version 1 ended before the servers.
    #[test]
    fn a_state_of_version_1_is_read() {
        let state = MonState { global_ids_below: 77, ..MonState::default() };
        let mut bytes = state.to_vec(Target::PACIFIC);
        let added = MonState::default().mon_servers.to_vec(Target::PACIFIC).len()
            + MonState::default().former_servers.to_vec(Target::PACIFIC).len()
            + MonState::default().manager.to_vec(Target::PACIFIC).len()
            + size_of::<u64>()
            + size_of::<bool>()
            // The count of services.
            + size_of::<u32>()
            + MonState::default().image_tasks.to_vec(Target::PACIFIC).len();
        bytes.truncate(bytes.len() - added);
        let length = (bytes.len() - 6) as u32;
        bytes[0] = 1;
        bytes[2..6].copy_from_slice(&length.to_le_bytes());
        assert_eq!(MonState::from_slice(&bytes), Ok(state));
    }
}
