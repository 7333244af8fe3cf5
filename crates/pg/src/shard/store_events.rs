//! Commits and lookups that the store has finished, and what waits for them.

use super::Shard;
use crate::context::{Fatal, OnCommit, Output, Waiter};
use crate::messages::PgInterval;
use crate::messages::peering::PgSought;
use store::{LookupId, ReadError, StoreEvent, Ticket};
use wire::Rope;

impl Shard {
    pub(super) fn handle_store_events(&mut self) {
        while let Some(event) = self.host.store.poll_event() {
            match event {
                StoreEvent::Committed(ticket) => self.committed(ticket),
                StoreEvent::LookupDone(id) => self.lookup_done(id, None),
                StoreEvent::ReadDone { id, result } => self.lookup_done(id, Some(result)),
                StoreEvent::Failed { reason } => {
                    self.host.outbox.outputs.push(Output::Fatal(Fatal::StoreFailed(reason)))
                }
            }
        }
    }

    fn committed(&mut self, ticket: Ticket) {
        self.bench_committed(ticket);
        let times = self.host.store.commit_times(ticket);
        while self.host.agenda.commits.front().is_some_and(|(t, ..)| *t <= ticket) {
            let (_, pgid, then) = self.host.agenda.commits.pop_front().expect("just seen");
            let Some(pg) = self.pgs.get_mut(&pgid) else { continue };
            match then {
                OnCommit::Nothing => {}
                OnCommit::PrimaryUpdate { since, version } => {
                    pg.updates().own_update_durable(&mut self.host.context(), since, version, times.as_ref());
                }
                OnCommit::MemberUpdate { primary, since, version, times: of_member } => {
                    if pg.peering.follows(primary, since) {
                        let group = PgInterval { pgid, since };
                        self.rep_replies.insert(primary, group, version);
                        if let Some(hops) = times.as_ref().and_then(|times| of_member.hops(times)) {
                            self.rep_hops.entry(primary).or_default().push(((group, version), hops));
                        }
                    }
                }
                OnCommit::Pushed { from, since, object } => {
                    pg.healer().push_durable(&mut self.host.context(), from, since, object)
                }
                OnCommit::Started { primary, since } => {
                    pg.agreement().start_remembered(&mut self.host.context(), primary, since)
                }
            }
            self.settle();
        }
    }

    pub(super) fn lookup_done(&mut self, id: LookupId, data: Option<Result<Rope, ReadError>>) {
        match self.host.agenda.waiters.remove(&id) {
            None => {}
            Some(Waiter::ClientOp { pgid, op }) => {
                self.with_group(pgid, |pg, cx| {
                    pg.with_intake(cx, |intake, cx| intake.op_lookup_done(cx, op, id, data));
                });
            }
            Some(Waiter::Scrub { pgid }) => {
                self.with_group(pgid, |pg, cx| {
                    pg.scrub.lookup_done(&mut pg.core, cx, &pg.requests.in_flight(), id, data)
                });
            }
            Some(Waiter::Check) => {
                self.check.lookup_done(&mut self.host.context(), &mut self.pgs, id, data);
                self.settle();
            }
            Some(Waiter::Load { pgid }) => {
                if self.pgs.get_mut(&pgid).is_some_and(|pg| pg.load_waited_for(id)) {
                    self.load_group(pgid);
                } else if self.splits.reading(pgid).is_some_and(|pg| pg.load_waited_for(id)) {
                    self.read_stray(pgid);
                } else if self.merges.load_waited_for(pgid, id) {
                    self.read_merges();
                }
            }
            Some(Waiter::Scan { pgid }) => {
                self.with_group(pgid, |pg, cx| pg.healer().scan_lookup_done(cx, id));
            }
            Some(Waiter::Trim { pgid }) => {
                self.with_group(pgid, |pg, cx| pg.trim_lookup_done(cx, id));
            }
            Some(Waiter::GoingBack { pgid }) => {
                self.with_group(pgid, |pg, cx| pg.members_changed(cx));
            }
            Some(Waiter::Stray { pgid }) => self.strays.lookup_done(&mut self.host.context(), pgid, id),
            Some(Waiter::Sought { pgid, from }) => {
                let epoch = self.host.maps.epoch();
                self.sought(from, PgSought { epoch, groups: vec![pgid] });
            }
            Some(Waiter::OldShard) => match self.host.context().old_shard_lookup_done(id, data) {
                Some((to, reply)) if to == self.host.whoami => {
                    let id = self.instance(reply.pg.pgid);
                    self.with_group(id, |pg, cx| pg.gatherer().shard_read_came(cx, to, reply));
                }
                Some((to, reply)) => self.host.context().send_osd(to, reply),
                None => {}
            },
            Some(Waiter::ShardRead { pgid }) => {
                self.with_group(pgid, |pg, cx| pg.gatherer().serve_lookup_done(cx, id, data));
            }
            Some(Waiter::Rebuild { pgid, object }) => {
                if let Some(data) = data {
                    self.with_group(pgid, |pg, cx| pg.gatherer().rebuild_read(cx, &object, id, data));
                }
            }
            Some(Waiter::Reread { pgid }) => {
                self.with_group(pgid, |pg, cx| pg.healer().reread_lookup_done(cx, id, data));
            }
            Some(Waiter::Push { pgid, to }) => {
                self.with_group(pgid, |pg, cx| pg.healer().push_lookup_done(cx, to, id, data));
            }
        }
    }
}
