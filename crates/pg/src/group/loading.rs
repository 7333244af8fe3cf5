//! A group's table on its way from the store into memory. Until it is there the group is like one that does not serve:
//! clients' operations wait, and members that ask what this one has are answered once that is known.

use crate::context::{Context, Waiter};
use crate::group::info::{INFO_KEY, PgInfo};
use crate::group::interval::Interval;
use crate::group::load_progress::{LoadError, Loading, Part};
use crate::group::log::{LogEntry, PgLog, log_key_range, log_keys_through};
use crate::group::lookup::{NoAnswer, ready};
use crate::group::missing::MISSING_PREFIX;
use crate::group::pg::Pg;
use crate::healing::receiving::RECEIVED_PREFIX;
use crate::messages::PgInterval;
use crate::messages::peering::Agreed;
use crate::scrub::{SCRUB_KEY, ScrubMark};
use bytes::Bytes;
use std::collections::BTreeMap;
use store::{LookupId, Store};
use types::{EVersion, ObjectId, OsdId, PgId};
use wire::Decode;

/// Entries of the table asked for at a time.
const PAGE_ENTRIES: usize = 64;

impl Pg {
    /// Makes a group that the store has. Its interval can be started; [`Pg::load`] must follow.
    pub(crate) fn stored(id: PgId, interval: Interval) -> Pg {
        let loading = Loading { part: Part::Info, waits_for: None, queries: BTreeMap::new(), to_merge: false };
        let mut pg = Pg { loading: Some(Box::new(loading)), ..Pg::absent(id, interval) };
        pg.core.stored = true;
        pg
    }

    /// Makes a table that the store has, to be read by [`Pg::load`] and then merged with others.
    pub(crate) fn to_be_merged(id: PgId, interval: Interval) -> Pg {
        let mut pg = Pg::stored(id, interval);
        pg.loading.as_mut().expect("just made").to_merge = true;
        pg
    }

    /// Makes a group that comes of others whose tables must be read and split, or merged, first. [`Pg::others_done`]
    /// must follow.
    pub(crate) fn waiting_for_others(id: PgId, interval: Interval) -> Pg {
        let loading = Loading { part: Part::Others, waits_for: None, queries: BTreeMap::new(), to_merge: false };
        Pg { loading: Some(Box::new(loading)), ..Pg::absent(id, interval) }
    }

    /// Returns true if the group waits for others to be split or merged.
    pub(crate) fn waits_for_others(&self) -> bool {
        self.loading.as_ref().is_some_and(|loading| matches!(loading.part, Part::Others))
    }

    /// Notes that the others are split or merged; `is_stored`: this group has a table now. [`Pg::load`] must follow.
    pub(crate) fn others_done(&mut self, is_stored: bool) {
        self.core.stored = is_stored;
        if let Some(loading) = &mut self.loading {
            loading.part = if is_stored { Part::Info } else { Part::Nothing };
        }
    }

    /// Returns true if the group's table is not in memory yet.
    pub(crate) fn is_loading(&self) -> bool {
        self.loading.is_some()
    }

    /// Keeps a primary's question until it can be answered. False if it can be now.
    pub(crate) fn hold_query(&mut self, from: OsdId, pg: PgInterval, agreed: &Agreed) -> bool {
        match &mut self.loading {
            Some(loading) => {
                loading.queries.insert(from, (pg, agreed.clone()));
                true
            }
            None => false,
        }
    }

    /// Reads on until the table is in memory or a lookup must be waited for. Once it is, the group takes its part in
    /// the interval that it is in by then.
    pub(crate) fn load(&mut self, cx: &mut Context<'_>) -> Result<(), LoadError> {
        while let Some(loading) = &self.loading {
            if let Part::Others = loading.part {
                break;
            }
            let next = self.load_part(cx.store, &loading.part.clone());
            let loading = self.loading.as_mut().expect("just seen");
            match next {
                Ok(Some(part)) => loading.part = part,
                Ok(None) => self.loaded(cx),
                Err(LoadStop::Pending(id)) => {
                    loading.waits_for = Some(id);
                    cx.wait(id, Waiter::Load { pgid: self.core.id });
                    break;
                }
                Err(LoadStop::Failed(error)) => return Err(error),
            }
        }
        Ok(())
    }

    /// Returns true if the table's reading waits for the store.
    pub(crate) fn waits_for_lookup(&self) -> bool {
        self.loading.as_ref().is_some_and(|loading| loading.waits_for.is_some())
    }

    /// Notes that a lookup is done. Returns true if the table's reading waited for it: if the group was left and has
    /// come back meanwhile, another one is waited for.
    pub(crate) fn load_waited_for(&mut self, id: LookupId) -> bool {
        let waited = self.loading.as_mut().filter(|loading| loading.waits_for == Some(id));
        waited.is_some_and(|loading| loading.waits_for.take().is_some())
    }

    fn loaded(&mut self, cx: &mut Context<'_>) {
        let loading = self.loading.take().expect("the caller has read the table");
        tracing::debug!(pg = %self.core.id, head = %self.core.log.head(), missing = self.core.missing.len(), "table is in memory");
        self.healer().drop_parts(cx);
        if loading.to_merge {
            return;
        }
        let (table, map) = (self.core.info.pg_num, self.core.interval.shape.pg_num);
        match table > map && !osdmap::same_range(self.core.id.seed, table, map) {
            true => self.lacks_the_rest(cx),
            false => drop(self.split(cx, map)),
        }
        self.enter_interval(cx);
        for (from, (pg, agreed)) in loading.queries {
            if let Some(state) = self.join(cx, from, pg, &agreed) {
                cx.notify(from, vec![(pg, state)], Vec::new());
            }
        }
    }

    /// Reads one page of the table. Returns the part that comes next; `None` if nothing does.
    fn load_part(&mut self, store: &mut Store, part: &Part) -> Result<Option<Part>, LoadStop> {
        let pg = self.core.id;
        let damaged = |what, source| LoadStop::Failed(LoadError::Damaged { pg, what, source });
        let unanswered = |why| match why {
            NoAnswer::Pending(id) => LoadStop::Pending(id),
            NoAnswer::Damaged(damage) => LoadStop::Failed(LoadError::Unreadable { pg, damage }),
        };
        match part {
            Part::Others | Part::Nothing => Ok(None),
            Part::Info => {
                let info = ready(store.pg_get(pg, &INFO_KEY)).map_err(unanswered)?.unwrap_or_default();
                self.core.info = PgInfo::from_slice(&info).map_err(|e| damaged("information", e))?;
                self.core.log = PgLog::starting_at(self.core.info.log_tail);
                Ok(Some(Part::Dups(log_key_range().0)))
            }
            Part::Dups(from) => {
                let end = log_keys_through(self.core.log.tail().version).1;
                let entries = ready(store.pg_list(pg, from, &end, PAGE_ENTRIES)).map_err(unanswered)?;
                let last = entries.get(PAGE_ENTRIES - 1).map(|(key, _)| behind(key));
                for (_, value) in entries {
                    self.core.log.add_dup(&LogEntry::from_slice(&value).map_err(|e| damaged("dup", e))?);
                }
                Ok(Some(last.map_or(Part::Log, Part::Dups)))
            }
            Part::Log => {
                let (begin, end) = (log_keys_through(self.core.log.head().version).1, log_key_range().1);
                let entries = ready(store.pg_list(pg, &begin, &end, PAGE_ENTRIES)).map_err(unanswered)?;
                let more = entries.len() == PAGE_ENTRIES;
                for (_, value) in entries {
                    let entry = LogEntry::from_slice(&value).map_err(|e| damaged("log entry", e))?;
                    let head = self.core.log.head();
                    if !self.core.log.may_append(&entry) {
                        return Err(LoadStop::Failed(LoadError::LogGap { pg, entry: entry.version, head }));
                    }
                    self.core.log.append(entry);
                }
                let (log, info) = (self.core.log.head(), self.core.info.last_update);
                match more {
                    true => Ok(Some(Part::Log)),
                    false if log != info => Err(LoadStop::Failed(LoadError::LogEnd { pg, log, info })),
                    false => {
                        if self.core.protection().keeps_undo() {
                            self.core.log.will_stay(EVersion::ZERO, self.core.info.rolled_forward);
                        }
                        Ok(Some(Part::Missing(Bytes::from_static(&[MISSING_PREFIX]))))
                    }
                }
            }
            Part::Missing(from) => {
                let entries =
                    ready(store.pg_list(pg, from, &[MISSING_PREFIX + 1], PAGE_ENTRIES)).map_err(unanswered)?;
                let last = entries.get(PAGE_ENTRIES - 1).map(|(key, _)| behind(key));
                for (key, value) in entries {
                    let object = ObjectId::from_slice(&key[1..]).map_err(|e| damaged("name of a missing object", e))?;
                    let version =
                        EVersion::from_slice(&value).map_err(|e| damaged("version of a missing object", e))?;
                    self.core.missing.insert(object, version);
                }
                Ok(Some(last.map_or_else(|| Part::Received(Bytes::from_static(&[RECEIVED_PREFIX])), Part::Missing)))
            }
            Part::Received(from) => {
                let entries =
                    ready(store.pg_list(pg, from, &[RECEIVED_PREFIX + 1], PAGE_ENTRIES)).map_err(unanswered)?;
                let last = entries.get(PAGE_ENTRIES - 1).map(|(key, _)| behind(key));
                for (key, _) in entries {
                    let object =
                        ObjectId::from_slice(&key[1..]).map_err(|e| damaged("name of an object in part", e))?;
                    self.healing.came_in_part(object);
                }
                Ok(Some(last.map_or(Part::Scrub, Part::Received)))
            }
            Part::Scrub => {
                if let Some(mark) = ready(store.pg_get(pg, &SCRUB_KEY)).map_err(unanswered)? {
                    self.scrub.set_mark(ScrubMark::from_slice(&mark).map_err(|e| damaged("scrub mark", e))?);
                }
                Ok(None)
            }
        }
    }
}

/// Returns the first key behind another: that key with a zero byte.
fn behind(key: &Bytes) -> Bytes {
    [key, &[0][..]].concat().into()
}

/// Why a page of the table is not there.
enum LoadStop {
    Pending(LookupId),
    Failed(LoadError),
}
