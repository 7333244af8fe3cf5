//! First messages between monitors, and the rules by which a server becomes a member.

use super::{Action, Member};
use crate::monitor::Now;
use crate::state::MonServer;
use crate::volatile::ClockSample;
use osdmap::MonMap;
use raft::ServerId;
use tracing::{info, warn};
use wire::msgr::SessionId;
use wire::nacre::quorum::{self as q, verdict};
use wire::{Decode, Encode, Message, Target};

impl Member {
    /// Says hello over all these sessions.
    pub(super) fn say_hello(&mut self, now: Now, sessions: &[SessionId], out: &mut Vec<Action>) {
        if sessions.is_empty() {
            return;
        }
        let quorum = self.monitor.leads().then(|| self.monitor.volatile().quorum.report.clone());
        let hello = q::MonHello {
            fsid: self.identity.fsid,
            server: self.me().0,
            founder: self.monitor.state().founder,
            name: self.identity.name.clone(),
            addrs: self.config.addrs.clone(),
            metadata: self.config.metadata.clone(),
            wall: now.wall,
            quorum,
            options: self.monitor.option_report(),
            state_sum: self.monitor.state_sum(),
        };
        let envelope = hello.seal(0, Target::PACIFIC);
        out.extend(sessions.iter().map(|session| Action::Send { session: *session, envelope: envelope.clone() }));
    }

    pub(super) fn hello(&mut self, now: Now, session: SessionId, hello: q::MonHello, out: &mut Vec<Action>) {
        let (verdict, reason) = match self.judge(now, &hello) {
            Ok(()) => (verdict::WELCOME, String::new()),
            Err((verdict, reason)) => (verdict, reason),
        };
        let is_new = self.links.accepted_from(session) != Some(ServerId(hello.server));
        if !reason.is_empty() && is_new {
            info!("mon.{} at {}: {reason}", hello.name, hello.addrs);
        }
        // A server that is refused for now is remembered as well: it has said who it is, and nothing else comes of it.
        if verdict == verdict::WELCOME || verdict == verdict::REFUSED {
            self.links.introduced(session, ServerId(hello.server), &hello.addrs);
        }
        if verdict == verdict::WELCOME {
            if let Some(report) = hello.quorum.filter(|_| self.other_leader() == Some(ServerId(hello.server))) {
                self.monitor.told_quorum(report);
            }
            self.monitor.told_options(&hello.name, hello.options);
            if let Some(sum) = hello.state_sum {
                self.monitor.told_state_sum(&hello.name, sum);
            }
            if self.monitor.leads() {
                self.monitor.told_metadata(&hello.name, hello.metadata);
                if hello.founder == 0 {
                    let server = MonServer { server: hello.server, addrs: hello.addrs };
                    self.monitor.join(now, &hello.name, server, &mut self.todo);
                }
            }
        }
        let reply = q::MonHelloReply {
            fsid: self.identity.fsid,
            server: self.me().0,
            name: self.identity.name.clone(),
            asked: hello.wall,
            wall: now.wall,
            verdict,
            reason,
            monmap: match self.is_empty() {
                true => Default::default(),
                false => self.monitor.state().monmap.to_vec(Target::PACIFIC).into(),
            },
        };
        out.push(Action::Send { session, envelope: reply.seal(0, Target::PACIFIC) });
    }

    /// Checks that a server is a member or may become one. Error: a verdict and a sentence.
    fn judge(&self, now: Now, hello: &q::MonHello) -> Result<(), (u8, String)> {
        if hello.fsid != self.identity.fsid {
            let reason = format!("it belongs to cluster {}, this is {}", hello.fsid, self.identity.fsid);
            return Err((verdict::FOREIGN, reason));
        }
        if self.is_empty() {
            return Ok(());
        }
        let state = self.monitor.state();
        if hello.founder != 0 && hello.founder != state.founder {
            let reason =
                "it has another history than this one, though the same cluster id: was its store made without --join?";
            return Err((verdict::FOREIGN, reason.to_owned()));
        }
        if self.is_former(ServerId(hello.server)) {
            let reason = format!(
                "its store was mon.{}'s, which was removed or has another one now; make a new one (`nacre mon --mkfs \
                 --join`) to let it take part again",
                hello.name
            );
            return Err((verdict::REMOVED, reason));
        }
        // A server that is not known and has a history is a member that this one has not heard of yet.
        let is_member = self.raft.membership().contains(ServerId(hello.server));
        if self.name_of(ServerId(hello.server)).is_some() || is_member || hello.founder != 0 {
            return Ok(());
        }
        let name = &hello.name;
        if let Some(known) = state.mon_servers.get(name).filter(|known| self.is_alive(now, ServerId(known.server))) {
            let reason = format!("mon.{name} runs at {} already; stop it first, or choose another name", known.addrs);
            return Err((verdict::REFUSED, reason));
        }
        let taken = state.mon_servers.iter().find(|(other, known)| *other != name && known.addrs == hello.addrs);
        if let Some((other, _)) = taken {
            return Err((verdict::REFUSED, format!("its address is that of mon.{other}")));
        }
        Ok(())
    }

    /// For a leader: returns true if a member has answered lately.
    pub(super) fn is_alive(&self, now: Now, server: ServerId) -> bool {
        let lately = now.since_start.saturating_sub(2 * self.config.raft.election_timeout);
        let answered = |(id, _, at): (ServerId, u64, Option<_>)| id == server && at.is_some_and(|at| at >= lately);
        server == self.me() || self.raft.followers().any(answered)
    }

    pub(super) fn hello_reply(
        &mut self,
        now: Now,
        session: SessionId,
        reply: &q::MonHelloReply,
        out: &mut Vec<Action>,
    ) {
        let is_news = self.links.answered(session, ServerId(reply.server), &reply.reason);
        match reply.verdict {
            verdict::WELCOME => {}
            // Only a member of the own cluster may remove this one.
            verdict::REMOVED if reply.fsid == self.identity.fsid => {
                return out.push(Action::Stop { reason: format!("mon.{} says: {}", reply.name, reply.reason) });
            }
            _ if is_news => warn!("mon.{} does not talk to this monitor: {}", reply.name, reply.reason),
            _ => {}
        }
        if reply.fsid != self.identity.fsid {
            return;
        }
        if self.other_leader() == Some(ServerId(reply.server)) {
            self.announce_all(out);
        }
        if self.monitor.leads() {
            self.clocks.insert(reply.name.clone(), ClockSample::new(reply.asked, reply.wall, now.wall));
        }
        if self.is_empty()
            && let Ok(map) = MonMap::from_slice(&reply.monmap)
        {
            self.learn_peers(map.mons.into_values().map(|mon| mon.addrs));
        }
    }
}
