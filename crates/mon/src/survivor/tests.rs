use super::*;
use crate::BootstrapSpec;
use crate::daemon::{founded, mkfs, mkfs_to_join};
use crate::member::{Action, Input, Member, MemberConfig};
use crate::monitor::Now;
use crate::state::PgRecord;
use crate::update::Update;
use bytes::Bytes;
use osdmap::{Incremental, PgPool};
use raft::{Entry, Persist};
use std::collections::BTreeMap;
use types::OsdId;

const FSID: Fsid = Fsid([7; 16]);
const NOW: Utime = Utime { sec: 2_000_000, nsec: 0 };

/// A monitor's folder that goes away with the value.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("nacre-survivor-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn store(&self) -> PathBuf {
        self.0.join(STORE)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn addr(number: usize) -> EntityAddrVec {
    EntityAddrVec::msgr2(format!("10.0.0.{number}:3300").parse().unwrap(), 0)
}

fn spec(names: &[&str]) -> BootstrapSpec {
    BootstrapSpec {
        fsid: FSID,
        monitors: names.iter().enumerate().map(|(i, name)| ((*name).to_owned(), addr(i + 1))).collect(),
        auth: Default::default(),
        config: Vec::new(),
        now: Utime { sec: 1_000_000, nsec: 0 },
    }
}

fn entry(term: u64, index: u64, payload: Payload) -> Entry {
    Entry { position: Position { term, index }, payload }
}

fn batch(index: u64, update: Update) -> Payload {
    let batch = Batch { stamp: NOW, updates: vec![update] };
    let mut data = index.to_le_bytes().to_vec();
    data.extend(batch.to_vec(Target::PACIFIC));
    Payload::Data(data.into())
}

fn key(name: &str) -> Update {
    Update::ConfigKey {
        key: name.to_owned(),
        value: Some(Bytes::from_static(b"a value to be found in the file").into()),
    }
}

/// Makes the store of mon.b, server 2 of 1 to 3, with a state of one batch and two more in its log; the last may not be
/// decided.
fn store_of_b(folder: &Folder) {
    let mut stored = founded(&spec(&["a", "b", "c"]), &[1, 2, 3].map(ServerId));
    let first = stored.snapshot.as_ref().unwrap().last;
    let position = |more| (first.term + 1, first.index + more);
    let payloads = [Payload::TermStart, batch(2, key("first")), batch(3, key("second"))];
    stored.entries =
        (1..).zip(payloads).map(|(more, payload)| entry(position(more).0, position(more).1, payload)).collect();
    stored.vote = Vote { term: first.term + 3, voted_for: Some(ServerId(3)) };
    let identity = Identity { fsid: FSID, name: "b".to_owned(), server: ServerId(2) };
    drop(RedbLog::create(&folder.store(), &identity, &stored).unwrap());
}

/// Makes the store of mon.b as [`store_of_b`] does, with a pool of four groups in its log, too. One group has served.
fn store_with_a_pool(folder: &Folder, served: PgId, record: &PgRecord) {
    store_of_b(folder);
    let mut log = RedbLog::open(&folder.store()).unwrap();
    let stored = log.load().unwrap().stored;
    let state = state_after_all(&stored).unwrap();
    let mut incremental = Incremental::after(state.osdmap(), NOW);
    incremental.new_pool_max = Some(served.pool.0);
    incremental.new_pool_names.insert(served.pool, "p".to_owned());
    incremental.new_pools.insert(served.pool, PgPool::replicated(3, 4, 0));
    let updates = [state.next_osd_map(incremental), Update::PgActivated(vec![(served, record.clone())])];
    let last = stored.entries.last().unwrap().position;
    let entries = (1..).zip(updates);
    let entries = entries.map(|(more, update)| entry(last.term, last.index + more, batch(3 + more, update)));
    log.write(&[Persist::Entries(entries.collect())]).unwrap();
}

/// Runs a monitor on a store until it leads.
fn lead(folder: &Folder) -> Member {
    let mut log = RedbLog::open(&folder.store()).unwrap();
    let config = MemberConfig {
        addrs: addr(2),
        peers: vec![addr(1), addr(3)],
        manager_addrs: EntityAddrVec::default(),
        metadata: BTreeMap::new(),
        seed: 1,
        raft: raft_config(),
    };
    let mut now = Now { since_start: Duration::ZERO, wall: NOW };
    let mut member = Member::new(log.load().unwrap(), config, Box::new(|| [3; 32]), now).unwrap();
    let mut out = Vec::new();
    for _ in 0..100 {
        now.since_start += Duration::from_millis(50);
        member.handle(now, Input::Tick, &mut out);
        while let Some(action) = out.pop() {
            if let Action::Persist { ticket, write } = action {
                log.write(&[write]).unwrap();
                member.handle(now, Input::Persisted(ticket), &mut out);
            }
        }
    }
    assert!(member.monitor().leads(), "nobody else is to be asked");
    member
}

#[test]
fn a_survivor_leads_alone_with_all_that_it_had() {
    let folder = Folder::new("alone");
    store_of_b(&folder);
    let survivor = Survivor::open(&folder.0, "b").unwrap();
    let others: Vec<&str> = survivor.others().map(|(name, _)| name).collect();
    assert_eq!((others, survivor.is_voter(), survivor.state().applied), (vec!["a", "c"], true, 3));
    let (before, after) = (survivor.state().clone(), survivor.epoch_after());
    let kept = survivor.take_over(NOW).unwrap();
    let member = lead(&folder);
    let state = member.monitor().state();
    assert!(["first", "second"].iter().all(|key| state.config_keys.contains_key(*key)));
    assert_eq!(
        (state.osdmap().epoch, state.osdmaps.oldest()),
        (after, after),
        "who has an older map gets this one in full"
    );
    assert_eq!(state.osdmap().crush, before.osdmap().crush);
    assert!(state.monmap.epoch > before.monmap.epoch && state.global_ids_below > before.global_ids_below);
    assert_eq!((state.monmap.ranks.clone(), state.monmap.mons.len()), (vec!["b".to_owned()], 1));
    assert_eq!(state.former_servers, [1, 2, 3].into(), "those that were lost, and this one as it was");
    let own = member.identity().server;
    assert_eq!((state.founder, state.mon_servers["b"].server), (own.0, own.0));
    assert!(state.log.entries.iter().any(|line| line.message.contains("without mon.a, mon.c")));
    assert!(state.in_doubt, "until the operator has confirmed what it knows");
    // The store's former content is still there.
    let mut kept = RedbLog::open(&kept).unwrap();
    let Loaded { identity, stored } = kept.load().unwrap();
    assert_eq!((identity.server, stored.entries.len()), (ServerId(2), 3));
    drop(member);
    let again = Survivor::open(&folder.0, "b").map(drop).unwrap_err();
    assert!(matches!(again, SurvivorError::Alone { .. }), "{again}");
}

/// A group may have served elsewhere since the survivor heard of it last, also one without a record.
#[test]
fn records_of_all_groups_may_be_behind_until_the_operator_confirms_them() {
    let folder = Folder::new("doubt");
    let served = PgId::new(1, 2);
    let record = PgRecord {
        last_epoch_started: Epoch(9),
        members: vec![OsdId(0), OsdId(1), OsdId(2)],
        past: vec![OsdId(3)],
        ..PgRecord::default()
    };
    store_with_a_pool(&folder, served, &record);
    let survivor = Survivor::open(&folder.0, "b").unwrap();
    assert!(survivor.state().pgs.values().all(|known| known.doubt == doubt::NONE), "as it was before");
    survivor.take_over(NOW).unwrap();
    let member = lead(&folder);
    let state = member.monitor().state();
    let known: Vec<(PgId, u8)> = state.pgs.iter().map(|(group, known)| (*group, known.doubt)).collect();
    assert_eq!(known, (0..4).map(|seed| (PgId::new(1, seed), doubt::BEHIND)).collect::<Vec<_>>());
    assert_eq!(state.pgs[&served], PgRecord { doubt: doubt::BEHIND, ..record }, "nothing else of it is changed");
    let mut confirmed = state.clone();
    confirmed.apply(state.applied + 1, &Batch { stamp: NOW, updates: vec![Update::Confirmed] });
    assert!(!confirmed.in_doubt && confirmed.pgs.values().all(|known| known.doubt == doubt::NONE));
}

#[test]
fn stores_that_are_in_use_or_of_no_use_are_refused_and_left_alone() {
    let folder = Folder::new("refused");
    store_of_b(&folder);
    let before = std::fs::read(folder.store()).unwrap();
    let refused = |folder: &Folder, name| Survivor::open(&folder.0, name).map(drop).unwrap_err();
    assert!(matches!(refused(&folder, "a"), SurvivorError::UnknownName { .. }));
    let running = RedbLog::open(&folder.store()).unwrap();
    let in_use = refused(&folder, "b");
    assert!(matches!(&in_use, SurvivorError::Log(LogError::Open { .. })), "{in_use}");
    drop(running);
    std::fs::write(folder.0.join(BEFORE), "something").unwrap();
    let kept = Survivor::open(&folder.0, "b").unwrap().take_over(NOW).unwrap_err();
    assert!(matches!(kept, SurvivorError::Kept { .. }), "{kept}");
    assert_eq!(Survivor::open(&folder.0, "b").unwrap().state().mon_servers.len(), 3);
    // A byte of the last batch is changed.
    let mut damaged = before;
    let value = b"a value to be found in the file";
    let at = (0..damaged.len() - value.len()).filter(|at| damaged[*at..].starts_with(value)).collect::<Vec<_>>();
    assert!(!at.is_empty());
    at.into_iter().for_each(|at| damaged[at] ^= 1);
    std::fs::write(folder.store(), damaged).unwrap();
    let damage = refused(&folder, "b");
    assert!(matches!(&damage, SurvivorError::Log(LogError::Damaged(_))), "{damage}");
}

#[test]
fn monitors_that_know_nothing_or_are_no_members_are_refused() {
    let folder = Folder::new("empty");
    mkfs_to_join(&folder.0, FSID, "b", None).unwrap();
    assert!(matches!(Survivor::open(&folder.0, "b"), Err(SurvivorError::Empty { .. })));
    let folder = Folder::new("single");
    mkfs(&folder.0, &spec(&["a"])).unwrap();
    assert!(matches!(Survivor::open(&folder.0, "a"), Err(SurvivorError::Alone { .. })));
    assert!(matches!(
        Survivor::open(&Folder::new("nothing").0, "a"),
        Err(SurvivorError::Log(LogError::NotAStore { .. }))
    ));
    let folder = Folder::new("former");
    store_of_b(&folder);
    let mut log = RedbLog::open(&folder.store()).unwrap();
    let stored = log.load().unwrap().stored;
    let last = stored.entries.last().unwrap().position;
    let gone = entry(last.term, last.index + 1, batch(4, Update::MonGone { name: "b".to_owned() }));
    log.write(&[Persist::Entries(vec![gone])]).unwrap();
    drop(log);
    assert!(matches!(Survivor::open(&folder.0, "b"), Err(SurvivorError::Former { .. })));
}
