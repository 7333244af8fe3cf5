//! The size of the state, and its limits.
//!
//! The state goes from one monitor to another as a whole, and each keeps it in memory. Its growth by itself (records of
//! placement groups, the OSD map's past, the log's tail) is bounded by the size of the cluster; its growth by clients'
//! requests is bounded here.

use super::MonState;
use super::image_tasks::TaskChange;
use super::purge_schedules::ScheduleChange;
use crate::bounds::{CONFIG_BYTES_MAX, OSDMAP_BYTES_MAX, STATE_BYTES_MAX};
use crate::update::Update;
use bytes::Bytes;
use osdmap::{Incremental, OsdMap};
use std::collections::BTreeMap;
use wire::{Decode, Encode, Target};

/// Approximate bytes of an entry of a table beside its texts.
const ENTRY_BYTES: usize = 32;
/// Approximate bytes of an entity's keys.
const KEYS_BYTES: usize = 64;
/// Approximate bytes of a record of a placement group of three copies, or of a line of the cluster log.
const RECORD_BYTES: usize = 96;

/// Reason why a change is refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum OverBudget {
    #[error(
        "the monitors' state has {now} bytes, this would add {more}, and it may have {STATE_BYTES_MAX}: remove what is \
         not needed (`ceph config-key ls`, `ceph config dump`, `ceph auth ls`) and try again"
    )]
    State { now: usize, more: usize },
    #[error(
        "options have {now} bytes, this would add {more}, and all together may have {CONFIG_BYTES_MAX}: remove some \
         with `ceph config rm` and try again"
    )]
    Config { now: usize, more: usize },
    #[error(
        "the OSD map would have {bytes} bytes, and may have {OSDMAP_BYTES_MAX}: remove what is not needed (pools, \
         erasure code profiles, locked out clients, OSDs) and try again"
    )]
    OsdMap { bytes: usize },
}

impl MonState {
    /// Returns the approximate bytes of the state, encoded.
    pub fn bytes(&self) -> usize {
        let texts = |table: &BTreeMap<String, String>| -> usize {
            table.iter().map(|(key, value)| key.len() + value.len() + ENTRY_BYTES).sum()
        };
        let keys = self.config_keys.iter().map(|(key, value)| key.len() + value.len() + ENTRY_BYTES);
        let auth = self.auth.iter().map(|(name, entry)| name.len() + texts(&entry.caps) + KEYS_BYTES);
        let osds = self.osd_metadata.values().map(texts);
        let mons = self.mon_metadata.values().map(texts);
        let mutes = self.health_mutes.iter().map(|(code, mute)| code.len() + mute.summary.len() + ENTRY_BYTES);
        let lines = self.log.entries.iter().map(|line| line.message.len() + line.channel.len() + RECORD_BYTES);
        let parts = keys.chain(auth).chain(osds).chain(mons).chain(mutes).chain(lines);
        let config = self.config.bytes() + self.config.history_bytes();
        parts.sum::<usize>() + config + self.image_tasks.bytes() + self.osdmaps.bytes() + self.pgs.len() * RECORD_BYTES
    }

    /// Refuses requested updates that would make the state too large. Updates that make it smaller are always let
    /// through.
    pub fn check_budget(&self, updates: &[Update]) -> Result<(), OverBudget> {
        let more: usize = updates.iter().map(|update| self.growth(update)).sum();
        let option = |update: &Update| if let Update::Config { .. } = update { self.growth(update) } else { 0 };
        let of_config: usize = updates.iter().map(option).sum();
        let now = self.config.bytes();
        if of_config > 0 && now + of_config > CONFIG_BYTES_MAX {
            return Err(OverBudget::Config { now, more: of_config });
        }
        for update in updates {
            if let Update::OsdMap(incremental) = update {
                self.check_map(incremental)?;
            }
        }
        let now = self.bytes();
        match more > 0 && now + more > STATE_BYTES_MAX {
            true => Err(OverBudget::State { now, more }),
            false => Ok(()),
        }
    }

    /// Returns true if this many bytes may be added.
    pub fn has_room_for(&self, bytes: usize) -> bool {
        self.bytes() + bytes <= STATE_BYTES_MAX
    }

    /// Returns the bytes by which an update makes the state larger; 0 if it does not. A value that is replaced is
    /// subtracted.
    fn growth(&self, update: &Update) -> usize {
        let text = |text: &str| text.len() + ENTRY_BYTES;
        match update {
            Update::Config { who, name, value: Some(value) } => match self.config.get(who, name) {
                Some(before) => value.len().saturating_sub(before.len()),
                None => text(who) + name.len() + value.len(),
            },
            Update::ConfigKey { key, value: Some(value) } => match self.config_keys.get(key) {
                Some(before) => value.len().saturating_sub(before.len()),
                None => text(key) + value.len(),
            },
            Update::Auth { entity, entry: Some(entry) } if self.auth.get(entity) != Some(entry) => {
                let caps = entry.caps.iter().map(|(service, caps)| text(service) + caps.len());
                text(entity) + caps.sum::<usize>() + KEYS_BYTES
            }
            Update::HealthMute { code, mute: Some(mute) } if !self.health_mutes.contains_key(code) => {
                text(code) + mute.summary.len()
            }
            Update::ImageTask(TaskChange::Set(task)) if !self.image_tasks.tasks.contains_key(&task.sequence) => {
                task.bytes()
            }
            Update::ImageTask(TaskChange::Schedule(ScheduleChange::Set(level, schedule))) => {
                level.id().len() + ENTRY_BYTES * schedule.items.len()
            }
            Update::ImageTask(TaskChange::Schedule(ScheduleChange::Namespaces(_, names))) => {
                names.iter().map(|name| text(name)).sum()
            }
            // The map's past is bounded by itself: the lasting growth is that of the newest map.
            Update::OsdMap(incremental) if self.is_over_half() => {
                self.map_after(incremental).map_or(0, |bytes| bytes.saturating_sub(self.osdmaps.current_full().len()))
            }
            _ => 0,
        }
    }

    /// Returns true if the state is large enough to be looked at closely.
    fn is_over_half(&self) -> bool {
        self.bytes() > STATE_BYTES_MAX / 2
    }

    /// Refuses an increment that makes a large map larger.
    fn check_map(&self, incremental: &Bytes) -> Result<(), OverBudget> {
        let now = self.osdmaps.current_full().len();
        if now + 2 * incremental.len() <= OSDMAP_BYTES_MAX / 2 {
            return Ok(());
        }
        match self.map_after(incremental) {
            Some(bytes) if bytes > OSDMAP_BYTES_MAX && bytes > now => Err(OverBudget::OsdMap { bytes }),
            _ => Ok(()),
        }
    }

    /// Returns the bytes of the map that an increment leads to.
    fn map_after(&self, incremental: &Bytes) -> Option<usize> {
        let incremental = Incremental::from_slice(incremental).ok()?;
        let mut next: OsdMap = self.osdmap().clone();
        next.apply(&incremental).ok()?;
        Some(next.to_vec(Target::PACIFIC).len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::AuthEntry;
    use auth::{Key, KeyKind};

    fn key(number: usize, bytes: usize) -> Update {
        Update::ConfigKey { key: format!("key{number}"), value: Some(vec![7; bytes].into()) }
    }

    #[test]
    fn the_estimate_is_near_the_encoding() {
        let mut state = MonState::default();
        for number in 0..2000 {
            state.apply_update(2, types::Utime::ZERO, &key(number, number));
            let name = format!("rbd_option_{number}");
            state.apply_update(
                2,
                types::Utime::ZERO,
                &Update::Config { who: "client".to_owned(), name, value: Some("7".repeat(40)) },
            );
            let caps = [("mon".to_owned(), "allow *".to_owned())].into();
            let key = Key::new(KeyKind::Aes, types::Utime::ZERO, &[7; 16]).expect("its length");
            let entry = AuthEntry { key, pending_key: None, caps };
            state.apply_update(
                2,
                types::Utime::ZERO,
                &Update::Auth { entity: format!("client.{number}"), entry: Some(entry) },
            );
        }
        let (estimate, encoded) = (state.bytes(), state.to_vec(Target::PACIFIC).len());
        assert!(estimate >= encoded && estimate < encoded + encoded / 4, "{estimate} for {encoded}");
    }

    #[test]
    fn what_would_be_too_much_is_refused_and_what_makes_less_of_it_is_not() {
        let mut state = MonState::default();
        let large = 8 << 20;
        let mut number = 0;
        while state.check_budget(&[key(number, large)]).is_ok() {
            state.apply_update(2, types::Utime::ZERO, &key(number, large));
            number += 1;
        }
        assert_eq!(number, STATE_BYTES_MAX / large - 1);
        let Err(OverBudget::State { more, .. }) = state.check_budget(&[key(number, large)]) else { panic!() };
        assert!(more > large);
        assert!(state.check_budget(&[key(0, large)]).is_ok(), "it is there already");
        assert!(state.check_budget(&[key(0, 100)]).is_ok());
        let gone = Update::ConfigKey { key: "key0".to_owned(), value: None };
        assert!(state.check_budget(std::slice::from_ref(&gone)).is_ok());
        state.apply_update(2, types::Utime::ZERO, &gone);
        assert!(state.check_budget(&[key(number, large)]).is_ok());
    }

    #[test]
    fn options_have_a_budget_of_their_own() {
        let mut state = MonState::default();
        let option = |number: usize| {
            let (who, name) = ("global".to_owned(), format!("rbd_{number}"));
            Update::Config { who, name, value: Some("x".repeat(16 << 10)) }
        };
        let mut number = 0;
        while state.check_budget(&[option(number)]).is_ok() {
            state.apply_update(2, types::Utime::ZERO, &option(number));
            number += 1;
        }
        assert!((200..256).contains(&number), "{number}");
        assert!(matches!(state.check_budget(&[option(number)]), Err(OverBudget::Config { .. })));
    }

    #[test]
    fn a_large_map_does_not_become_larger() {
        let mut map = OsdMap::new(types::Fsid([1; 16]));
        map.epoch = types::Epoch(1);
        for id in 1..=9 {
            map.pools.insert(types::PoolId(id), osdmap::PgPool::replicated(3, 8, 0));
            map.pool_names.insert(types::PoolId(id), "x".repeat(2 << 20));
        }
        let mut state = MonState::default();
        state.osdmaps = crate::state::OsdMaps::begin_anew(&map);
        let mut more = state.next_incremental(types::Utime::ZERO);
        more.new_pools.insert(types::PoolId(10), osdmap::PgPool::replicated(3, 8, 0));
        more.new_pool_names.insert(types::PoolId(10), "y".to_owned());
        let update = state.osd_update(more).expect("a change");
        assert!(matches!(state.check_budget(&[update]), Err(OverBudget::OsdMap { .. })));
        let mut less = state.next_incremental(types::Utime::ZERO);
        less.old_pools.insert(types::PoolId(1));
        let update = state.osd_update(less).expect("a change");
        assert_eq!(state.check_budget(&[update]), Ok(()));
    }
}
