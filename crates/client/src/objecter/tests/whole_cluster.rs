//! Random events against well-behaved OSDs: every operation is answered once, in order per object.

use super::scripted::Scripted;
use super::{ms, write};
use crate::objecter::Answer;
use osdmap::{OsdMap, UpActing};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use types::{Epoch, OsdId, PgId, PoolId};
use wire::Message;
use wire::messages as msg;
use wire::msgr::SessionId;

#[derive(Clone, Debug)]
enum ClusterStep {
    Submit {
        object: u8,
    },
    /// OSDs take in, and answer, up to `count` messages.
    Deliver {
        count: u8,
    },
    LoseOsd {
        osd: u8,
    },
    LoseMon,
    Restart {
        osd: u8,
    },
    Down {
        osd: u8,
    },
    MoveAway {
        osd: u8,
        seed: u8,
    },
    Time {
        ms: u16,
    },
}

fn step() -> impl Strategy<Value = ClusterStep> {
    prop_oneof![
        6 => (0..4u8).prop_map(|object| ClusterStep::Submit { object }),
        6 => (1..6u8).prop_map(|count| ClusterStep::Deliver { count }),
        2 => (0..3u8).prop_map(|osd| ClusterStep::LoseOsd { osd }),
        1 => Just(ClusterStep::LoseMon),
        1 => (0..3u8).prop_map(|osd| ClusterStep::Restart { osd }),
        1 => (0..3u8).prop_map(|osd| ClusterStep::Down { osd }),
        1 => (0..3u8, 0..8u8).prop_map(|(osd, seed)| ClusterStep::MoveAway { osd, seed }),
        2 => (1..3000u16).prop_map(|ms| ClusterStep::Time { ms }),
    ]
}

/// All OSDs. They share one memory of executed operations, as replicas do.
#[derive(Default)]
struct Osds {
    /// Number of sent messages that have been looked at.
    seen: usize,
    executed: BTreeSet<u64>,
    /// Transaction ids by object, in order of execution.
    order: BTreeMap<Vec<u8>, Vec<u64>>,
    lost: BTreeSet<SessionId>,
    /// Each group's present interval: its sets, and the first epoch that had them.
    intervals: BTreeMap<PgId, (UpActing, Epoch)>,
}

impl Osds {
    /// Follows the map; called with every new one.
    fn follow(&mut self, map: &OsdMap) {
        for seed in 0..map.pools[&PoolId(1)].pg_num {
            let pg = PgId::new(1, seed);
            let placed = map.pg_to_up_acting(pg).unwrap();
            if self.intervals.get(&pg).is_none_or(|(known, _)| *known != placed) {
                self.intervals.insert(pg, (placed, map.epoch));
            }
        }
    }

    fn deliver(&mut self, s: &mut Scripted, count: usize) {
        for _ in 0..count {
            let Some((session, envelope)) = s.link.sent.get(self.seen).cloned() else { return };
            self.seen += 1;
            let Some(osd) = s.link.osd_of(session).filter(|_| envelope.header.kind == msg::OsdOp::TYPE) else {
                continue;
            };
            // A message sent on a session that is gone does not arrive, or its answer finds no session.
            if self.lost.contains(&session) || s.link.closed.contains(&session) || s.link.session_of(osd) != session {
                continue;
            }
            let op = msg::OsdOp::open(&envelope).unwrap();
            let (placed, since) = &self.intervals[&op.pgid.pg];
            if placed.acting_primary != Some(osd) || !s.map.is_up(osd) || op.epoch < *since {
                continue; // as a real OSD: dropped, the client will see a newer map
            }
            let tid = envelope.header.tid;
            if self.executed.insert(tid) {
                self.order.entry(op.name.to_vec()).or_default().push(tid);
            }
            s.says(session, msg::OsdOpReply::to(&op, 0, s.map.epoch), tid);
        }
    }

    fn lose(&mut self, s: &mut Scripted, session: SessionId) {
        let known = !s.link.closed.contains(&session) && self.lost.insert(session);
        if known {
            s.lose(session);
        }
    }
}

fn dialled(s: &Scripted, osd: u8) -> Option<SessionId> {
    let osd = OsdId(osd.into());
    s.link.dials.iter().rev().find(|(.., session)| s.link.osd_of(*session) == Some(osd)).map(|(.., session)| *session)
}

/// A monitor answers the latest dial, and gives the newest map.
fn find_mon(s: &mut Scripted) {
    if !s.objecter.has_mon() {
        let mon = *s.link.dialled_mons().last().unwrap();
        s.open(mon);
        let map = s.full();
        s.mon_says(map, 0);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]
    #[test]
    fn everything_is_answered_once_and_in_order(steps in proptest::collection::vec(step(), 1..80)) {
        let mut s = Scripted::connected();
        let mut osds = Osds::default();
        osds.follow(&s.map);
        let mut submitted = BTreeMap::<Vec<u8>, Vec<u64>>::new();
        let mut next = 0;
        let mut answered = BTreeSet::new();
        for step in steps {
            match step {
                ClusterStep::Submit { object } => {
                    let name = format!("o{object}");
                    s.submit(write(&name), next);
                    submitted.entry(name.into_bytes()).or_default().push(next);
                    next += 1;
                }
                ClusterStep::Deliver { count } => osds.deliver(&mut s, count.into()),
                ClusterStep::LoseOsd { osd } => {
                    if let Some(session) = dialled(&s, osd) {
                        osds.lose(&mut s, session);
                    }
                }
                ClusterStep::LoseMon => {
                    let mon = s.mon();
                    s.lose(mon);
                    find_mon(&mut s);
                }
                ClusterStep::Restart { osd } => s.push_map(|map| map.restart(osd.into())),
                ClusterStep::Down { osd } => s.push_map(|map| map.down(osd.into())),
                ClusterStep::MoveAway { osd, seed } => {
                    s.push_map(|map| map.pg_temp(PgId::new(1, seed.into()), osd.into()));
                }
                ClusterStep::Time { ms: n } => s.advance(ms(n.into())),
            }
            osds.follow(&s.map);
            while let Some(done) = s.objecter.poll_done() {
                prop_assert!(matches!(done.result, Ok(Answer::Op(_))));
                prop_assert!(answered.insert(done.completion), "answered twice");
            }
        }
        // The cluster heals: every operation in flight must end.
        s.push_map(|map| (0..3).for_each(|osd| map.restart(osd)));
        osds.follow(&s.map);
        for _ in 0..50 {
            osds.deliver(&mut s, usize::MAX);
            s.advance(ms(2000));
            find_mon(&mut s);
        }
        while let Some(done) = s.objecter.poll_done() {
            prop_assert!(answered.insert(done.completion), "answered twice");
        }
        prop_assert_eq!(answered.len() as u64, next);
        prop_assert_eq!(s.objecter.in_flight(), 0);
        for (name, tids) in &osds.order {
            prop_assert!(tids.is_sorted(), "object {:?} executed in the order {:?}", name, tids);
            prop_assert_eq!(tids.len(), submitted[name].len());
        }
    }
}
