//! The whole state as bytes: stands for the beginning of the log.

use super::MonState;
use wire::{Decode, DecodeError, Encode, Reader, Writer};

impl Encode for MonState {
    fn encode(&self, w: &mut Writer) {
        // Named one by one, so that a field that is added and forgotten here does not compile.
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
        } = self;
        w.versioned(1, 1, |w| {
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
        });
    }
}

impl Decode for MonState {
    fn decode(r: &mut Reader<'_>) -> Result<MonState, DecodeError> {
        let (_, mut r) = r.versioned("monitor state", 1)?;
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
        })
    }
}
