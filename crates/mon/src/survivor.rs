//! The way back after a majority of the monitors' disks is lost: one store that is left becomes that of a cluster's
//! only monitor.
//!
//! The last decision of the majority is unknown. All entries of the store's log are taken for decided: those that were
//! not decided might have been. Decisions that the store has not heard are lost, so that epochs of its maps may stand
//! for other maps than those that OSDs and clients have. The maps skip some epochs, and all OSDs and clients begin with
//! a full map.
//!
//! The store gets another number, the cluster another founder, and all servers that were members before are former
//! ones: a store of another member that is found later, or a copy made of this one before, finds no way in, nor does
//! this one find a way to it.

use crate::MonState;
use crate::daemon::{STORE, new_server};
use crate::log::{Identity, Loaded, LogError, MemberLog, RedbLog};
use crate::member::raft_config;
use crate::state::{LogEntry, LogPriority, OsdMaps};
use crate::update::Batch;
use osdmap::OsdMap;
use raft::{Membership, Payload, Position, Raft, ServerId, Snapshot, Stored, StoredError, Vote};
use std::path::{Path, PathBuf};
use std::time::Duration;
use types::{EntityName, EntityType, Epoch, Fsid, PgId, SnapId, Utime};
use wire::basic::AuthName;
use wire::nacre::mon::doubt;
use wire::{Decode, DecodeError, Encode, EntityAddrVec, Target};

/// Epochs of the OSD map that are skipped: more than can have been made unknown to the survivor. Twenty a second are
/// 72,000 an hour.
const EPOCHS_SKIPPED: u32 = 1_000_000;
/// Ids of clients that are skipped: more than can have been handed out unknown to the survivor.
const IDS_SKIPPED: u64 = 1 << 32;
/// Snapshot ids that are skipped in each pool: more than can have been given unknown to the survivor.
const SNAPS_SKIPPED: u64 = 1_000_000;
/// Name under which the store's former content is kept beside it.
const BEFORE: &str = "store.redb.before-sole";

/// A store that can become that of the only monitor. While this exists no monitor can open it.
#[derive(Debug)]
pub struct Survivor {
    data: PathBuf,
    log: RedbLog,
    identity: Identity,
    vote: Vote,
    /// Position of the last entry that it has.
    last: Position,
    /// State after all its entries.
    state: MonState,
    is_voter: bool,
}

/// Reasons why a store cannot become that of the only monitor. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum SurvivorError {
    #[error(transparent)]
    Log(#[from] LogError),
    #[error("the monitor's store is damaged")]
    Stored(#[from] StoredError),
    #[error("the monitor's store is damaged: {what} does not decode")]
    Decode { what: String, source: DecodeError },
    #[error("{path} holds the store of a monitor that is not called '{name}' but '{known}'")]
    UnknownName { name: String, path: String, known: String },
    #[error("mon.{name} has never been a member of a cluster: its store has nothing to go on from")]
    Empty { name: String },
    #[error("mon.{name} is no member of the cluster any more, as far as its store knows; use another one's")]
    Former { name: String },
    #[error("mon.{name} is the only monitor already")]
    Alone { name: String },
    #[error("{path} is there already, from an earlier time: move it away first")]
    Kept { path: String },
    #[error("cannot keep the store as it is at {path}")]
    Keep { path: String, source: std::io::Error },
    #[error("no random number from the system for the store")]
    Random(#[source] std::io::Error),
}

impl Survivor {
    /// Opens the store of the monitor `name` in the folder `data` and reads all that it has.
    pub fn open(data: &Path, name: &str) -> Result<Survivor, SurvivorError> {
        let path = data.join(STORE);
        let mut log = RedbLog::open(&path)?;
        let Loaded { identity, stored } = log.load()?;
        if identity.name != name {
            let (path, name, known) = (path.display().to_string(), name.to_owned(), identity.name);
            return Err(SurvivorError::UnknownName { name, path, known });
        }
        // Raft checks that entries follow each other, and knows the members by the last of them.
        let raft = Raft::new(identity.server, raft_config(), stored.clone(), 0, Duration::ZERO)?;
        let is_voter = raft.membership().voters.contains(&identity.server);
        let (vote, last, state) = (stored.vote, raft.last(), state_after_all(&stored)?);
        let name = name.to_owned();
        if state.applied == 0 {
            return Err(SurvivorError::Empty { name });
        }
        let is_member = state.mon_servers.get(&name).is_some_and(|known| known.server == identity.server.0);
        if !is_member || state.former_servers.contains(&identity.server.0) {
            return Err(SurvivorError::Former { name });
        }
        if state.mon_servers.len() == 1 && raft.membership().voters.iter().eq([&identity.server]) {
            return Err(SurvivorError::Alone { name });
        }
        Ok(Survivor { data: data.to_owned(), log, identity, vote, last, state, is_voter })
    }

    pub fn fsid(&self) -> Fsid {
        self.identity.fsid
    }

    /// Returns the state after all entries that the store has.
    pub fn state(&self) -> &MonState {
        &self.state
    }

    /// Returns true if it took part in decisions; a store that did not may lack much.
    pub fn is_voter(&self) -> bool {
        self.is_voter
    }

    /// Returns the epoch at which the OSD map goes on.
    pub fn epoch_after(&self) -> Epoch {
        skip(self.state.osdmap().epoch)
    }

    /// Returns the other monitors and their addresses.
    pub fn others(&self) -> impl Iterator<Item = (&str, &EntityAddrVec)> {
        let others = self.state.mon_servers.iter().filter(|(name, _)| **name != self.identity.name);
        others.map(|(name, known)| (name.as_str(), &known.addrs))
    }

    /// Makes the store that of the only monitor, in one step. Its former content is kept beside it; returns the path.
    pub fn take_over(self, now: Utime) -> Result<PathBuf, SurvivorError> {
        let before = self.data.join(BEFORE);
        let path = || before.display().to_string();
        if before.exists() {
            return Err(SurvivorError::Kept { path: path() });
        }
        let server = new_server().map_err(SurvivorError::Random)?;
        let keep = std::fs::copy(self.data.join(STORE), &before).and_then(|_| std::fs::File::open(&before)?.sync_all());
        keep.map_err(|source| SurvivorError::Keep { path: path(), source })?;
        let state = alone(self.state, &self.identity.name, server, now);
        let snapshot = Snapshot {
            last: self.last,
            membership: Membership::of_voters([server]),
            data: state.to_vec(Target::PACIFIC).into(),
        };
        let vote = Vote { term: self.vote.term, voted_for: None };
        let stored = Stored { vote, snapshot: Some(snapshot), entries: Vec::new() };
        self.log.replace(&Identity { server, ..self.identity }, &stored)?;
        Ok(before)
    }
}

fn skip(epoch: Epoch) -> Epoch {
    Epoch(epoch.0.saturating_add(EPOCHS_SKIPPED))
}

/// Returns the state of the last snapshot with all entries behind it applied.
fn state_after_all(stored: &Stored) -> Result<MonState, SurvivorError> {
    let undecodable = |what: String| move |source| SurvivorError::Decode { what, source };
    let Some(snapshot) = &stored.snapshot else { return Ok(MonState::default()) };
    let mut state = MonState::from_slice(&snapshot.data).map_err(undecodable("its state".to_owned()))?;
    for entry in stored.entries.iter().filter(|entry| entry.position.index > snapshot.last.index) {
        let Payload::Data(data) = &entry.payload else { continue };
        let (index, batch) = data.split_first_chunk().expect("entries begin with the batch's index");
        let index = u64::from_le_bytes(*index);
        let batch = Batch::from_slice(batch).map_err(undecodable(format!("batch {index}")))?;
        state.apply(index, &batch);
    }
    Ok(state)
}

/// Returns the map under a later epoch, in which no number is given again that may have been given. Numbers of pools
/// are skipped once the operator has confirmed that pools that are not known here may go: OSDs remove their data of
/// pools with numbers up to the highest.
fn skipping(map: &OsdMap, now: Utime) -> OsdMap {
    let mut map = map.clone();
    (map.epoch, map.modified) = (skip(map.epoch), now);
    for pool in map.pools.values_mut().filter(|pool| !pool.is_erasure()) {
        pool.snap_seq = SnapId(pool.snap_seq.0 + SNAPS_SKIPPED);
    }
    map
}

/// Returns the state in which the monitor `name` is the only one, as this server.
fn alone(mut state: MonState, name: &str, server: ServerId, now: Utime) -> MonState {
    let others: Vec<String> = state.mon_servers.keys().filter(|other| *other != name).cloned().collect();
    for other in &others {
        state.former_servers.extend(state.mon_servers.remove(other).map(|gone| gone.server));
        state.mon_metadata.remove(other);
    }
    state.monmap.mons.retain(|other, _| other == name);
    state.monmap.ranks.retain(|other| other == name);
    let own = state.mon_servers.get_mut(name).expect("it is a member");
    state.former_servers.insert(std::mem::replace(&mut own.server, server.0));
    let addrs = own.addrs.clone();
    // The monitor map need not have shown it yet.
    if !state.monmap.mons.contains_key(name) {
        state.monmap.add(name, addrs.clone());
    }
    state.founder = server.0;
    // Any group may have served elsewhere since, also one without a record here.
    state.in_doubt = true;
    let groups: Vec<PgId> = state.osdmap().pgs().collect();
    for group in groups {
        let is_behind = !mutant::is(mutant::Mutant::SurvivorBelieved);
        state.pgs.entry(group).or_default().doubt = if is_behind { doubt::BEHIND } else { doubt::NONE };
    }
    (state.monmap.epoch, state.monmap.last_changed) = (skip(state.monmap.epoch), now);
    state.osdmaps = OsdMaps::begin_anew(&skipping(state.osdmap(), now));
    state.global_ids_below = state.global_ids_below.saturating_add(IDS_SKIPPED);
    state.log.push(LogEntry {
        seq: 0,
        stamp: now,
        name: AuthName::new(EntityType::MON, name),
        rank: EntityName::mon(0),
        addrs,
        priority: LogPriority::WARN,
        channel: "cluster".to_owned(),
        message: format!(
            "mon.{name} was made the only monitor, without mon.{}; what it had not heard of is lost",
            others.join(", mon.")
        ),
    });
    state
}

#[cfg(test)]
mod tests;
