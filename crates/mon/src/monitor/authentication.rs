//! Parties prove who they are, and get ids and tickets.
//!
//! The caller carries a handshake: it hands in what a connection's other end says ([`Monitor::authenticate`]) and says
//! when the connection is over ([`Monitor::hung_up`]). A peer that is accepted becomes the other end of a session
//! whose global id is its own. Before a policy is set ([`Monitor::set_auth_policy`]) nobody proves anything.

use super::session::Session;
use super::shared_keys::SharedKeys;
use super::{Monitor, MonitorAction, Now};
use crate::MonState;
use crate::identity::{Party, Standing};
use crate::state::{AuthEntry, KnownEntities, LogPriority, MONITORS, SERVICES};
use crate::update::Update;
use auth::cephx::monitor::{MonitorAccept, MonitorView, TicketLifetimes, given_anew, requests};
use auth::cephx::rotating::RotatingSecrets;
use auth::cephx::service::{ServiceAccept, ServiceView};
use auth::clock::{TOLERANCE, later};
use auth::failures::FailedLogins;
use auth::messenger::ended_at_once;
use auth::{Accepted, Granted, Key, KeyKind, Method, Refusal, ServerPolicies, ServerPolicy, Step};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use std::ops::Range;
use std::time::Duration;
use tracing::info;
use types::{EntityType, Utime};
use wire::basic::AuthName;
use wire::messages as msg;
use wire::msgr::{ConnId, RefusalsTold, SessionId};
use wire::nacre::quorum::Proven;

/// Handshakes that go on at a time, or whose sessions have not begun. The oldest is forgotten beyond it: its other end
/// begins anew.
const HANDSHAKES_MAX: usize = 20_000;
/// Time from one replacement of all secrets of a service to the next.
const REPLACED_AGAIN_AFTER: Duration = Duration::from_secs(60);
/// Least time for which a ticket is good, whatever the options say.
const TICKET_LIFETIME_MIN: Duration = Duration::from_secs(1);

/// A peer's part of a handshake.
#[derive(Clone, Copy, Debug)]
pub enum Said<'a> {
    /// The kind of daemon or client that the peer says it is, the number of a method, the peer's connection modes, best
    /// first, and the method's first payload.
    Request { peer: EntityType, method: u32, modes: &'a [u32], payload: &'a [u8] },
    /// The answer to [`Step::More`].
    More(&'a [u8]),
}

/// The address that a peer has come to. Rights at one are none at the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum At {
    Monitor,
    Manager,
}

impl At {
    fn of(session: &Session) -> At {
        if session.is_at_manager { At::Manager } else { At::Monitor }
    }
}

#[derive(Debug)]
pub(super) enum Handshake {
    /// A client or daemon, of this kind, shakes hands with the monitor, which gives it an id and tickets.
    Monitor(MonitorAccept, EntityType),
    /// Another monitor shakes hands, and proves this key.
    Peer(ServiceAccept, Key),
    Manager(ServiceAccept),
    /// The peer is accepted at one of the two addresses, and its session has not begun.
    Accepted(At, Box<Party>),
}

/// Handshakes, and what they need beside the state.
#[derive(Default, Debug)]
pub(super) struct Authentication {
    /// Methods that are allowed; `None`: nobody proves anything, and everybody may do everything.
    policy: Option<ServerPolicies>,
    /// The keys by which monitors know each other.
    among_monitors: SharedKeys,
    /// Handshakes, each with the address at the connection's other end.
    pub(super) handshakes: BTreeMap<ConnId, (Option<IpAddr>, Handshake)>,
    /// Ids that this monitor may give.
    pub(super) ids: VecDeque<Range<u64>>,
    failed_logins: FailedLogins,
    refusals_told: RefusalsTold,
}

impl Authentication {
    fn next_id(&mut self) -> Option<u64> {
        while self.ids.front().is_some_and(Range::is_empty) {
            self.ids.pop_front();
        }
        self.ids.front_mut()?.next()
    }

    /// True if peers have to be accepted before they may do anything.
    pub fn is_asked_for(&self) -> bool {
        self.policy.is_some()
    }

    /// True if there is a method that needs secrets of services.
    fn gives_tickets(&self) -> bool {
        self.policy.as_ref().is_some_and(ServerPolicies::have_cephx)
    }

    fn keep(&mut self, conn: ConnId, from: Option<IpAddr>, handshake: Handshake) {
        self.handshakes.insert(conn, (from, handshake));
        if self.handshakes.len() > HANDSHAKES_MAX {
            self.handshakes.pop_first();
        }
    }

    /// Takes out the accepted peer whose session begins.
    fn take(&mut self, session: &Session) -> Option<Party> {
        let (at, peer) = (At::of(session), &session.peer);
        let is_it = |handshake: &Handshake| match handshake {
            Handshake::Accepted(came_to, identity) => {
                *came_to == at && identity.global_id() == Some(peer.global_id) && identity.name == peer.auth_name
            }
            _ => false,
        };
        let conn = *self.handshakes.iter().rfind(|(_, (_, handshake))| is_it(handshake))?.0;
        match self.handshakes.remove(&conn)? {
            (_, Handshake::Accepted(_, identity)) => Some(*identity),
            _ => None,
        }
    }
}

impl Monitor {
    /// Sets what parties may use to prove who they are, and the keys that monitors share, beside those of the state:
    /// `keyring`, of which this one proves the first. Returns the key that it proves. To be called before
    /// [`Monitor::start`].
    pub fn set_auth_policy(&mut self, policy: impl Into<ServerPolicies>, keyring: &[Key]) -> Option<Key> {
        self.authentication.policy = Some(policy.into());
        self.authentication.among_monitors = SharedKeys::new(keyring, self.stated_keys());
        self.authentication.among_monitors.for_keyring().into_iter().next()
    }

    /// The keys that monitors share by the state: the present one, then the pending one.
    fn stated_keys(&self) -> Vec<Key> {
        self.state.auth.get(MONITORS).into_iter().flat_map(AuthEntry::keys).cloned().collect()
    }

    /// The policy for a peer that says it is of this kind: that of this monitor, with those kinds of keys that the
    /// options of all allow.
    pub fn auth_policy(&self, peer: EntityType) -> ServerPolicy {
        let Some(policies) = &self.authentication.policy else { return nobody_proves() };
        let (mut policy, allowed) = (policies.of(peer).clone(), self.state.allowed_kinds());
        policy.key_kinds.retain(|kind| allowed.contains(kind));
        policy
    }

    /// Takes a range of ids for clients that belongs to this monitor alone ([`MonitorAction::GlobalIds`]).
    pub fn take_global_ids(&mut self, ids: Range<u64>) {
        self.authentication.ids.push_back(ids);
    }

    /// Returns the count of ids that [`Monitor::authenticate`] can give.
    pub fn global_ids_left(&self) -> u64 {
        self.authentication.ids.iter().map(|ids| ids.end.saturating_sub(ids.start)).sum()
    }

    /// True if a client or daemon that proves itself now can be given an id and tickets. Other monitors need neither.
    pub fn can_let_in(&self) -> bool {
        let has_secrets =
            |service| self.state.service_secrets.get(service).is_some_and(|secrets| secrets.current().is_some());
        let has_tickets = !self.authentication.gives_tickets() || SERVICES.iter().all(has_secrets);
        has_tickets && self.global_ids_left() > 0
    }

    /// Answers what the other end of a connection, which is at `from`, says to prove who it is.
    pub fn authenticate(&mut self, now: Now, conn: ConnId, from: Option<IpAddr>, said: Said<'_>) -> Step {
        let before = self.authentication.handshakes.remove(&conn).map(|(_, handshake)| handshake);
        let (step, next) = match (said, before) {
            (Said::Request { peer: EntityType::MON, .. }, None) => self.among_monitors(now, from, said, None),
            (Said::More(_), Some(Handshake::Peer(accept, key))) => {
                self.among_monitors(now, from, said, Some((accept, key)))
            }
            (Said::Request { peer, method, modes, payload }, None) => self.with_view(now, from, peer, |view| {
                let (step, accept) = MonitorAccept::begin(view, method, modes, payload);
                (step, accept.map(|accept| Handshake::Monitor(accept, peer)))
            }),
            (Said::More(payload), Some(Handshake::Monitor(accept, peer))) => {
                (self.judged(now, from, peer, accept, payload), None)
            }
            _ => (Step::Refused(Refusal::OutOfTurn), None),
        };
        self.concluded(now, (conn, At::Monitor), from, step, next)
    }

    /// Judges the proof of a key, unless too many from the peer's machine have failed.
    fn judged(
        &mut self,
        now: Now,
        from: Option<IpAddr>,
        peer: EntityType,
        accept: MonitorAccept,
        payload: &[u8],
    ) -> Step {
        let name = accept.name().clone();
        if from.is_some_and(|from| !self.authentication.failed_logins.may_try(from, Some(&name), now.since_start)) {
            return Step::Refused(Refusal::TooManyFailures);
        }
        let step = self.with_view(now, from, peer, |view| accept.more(view, payload));
        let Some(from) = from else { return step };
        match &step {
            Step::Accepted(_) => self.authentication.failed_logins.succeeded(from, &name, now.since_start),
            Step::Refused(refusal) if refusal.is_failed_login() => {
                let may_hear = self.authentication.failed_logins.failed(from, Some(&name), now.since_start);
                return if may_hear { step } else { Step::Refused(Refusal::TooManyFailures) };
            }
            _ => {}
        }
        step
    }

    /// Answers another monitor, which may prove any key that is good.
    fn among_monitors(
        &mut self,
        now: Now,
        from: Option<IpAddr>,
        said: Said<'_>,
        mut before: Option<(ServiceAccept, Key)>,
    ) -> (Step, Option<Handshake>) {
        let mut policy = self.auth_policy(EntityType::MON);
        // The key that monitors share has to be of a kind that is allowed. That of their tickets is of one kind always.
        let allowed = std::mem::replace(&mut policy.key_kinds, KeyKind::ALL.to_vec());
        let begun_with = before.as_ref().map(|(_, key)| key.clone());
        // Without a key there may still be those who prove nothing.
        let none = RotatingSecrets::default();
        let all = self.authentication.among_monitors.good();
        let (keys, others): (Vec<_>, Vec<_>) = all.partition(|shared| allowed.contains(&shared.key.kind()));
        if let Some(shared) = others.first().filter(|_| keys.is_empty()) {
            let (name, kind) = (AuthName::new(EntityType::MON, ""), shared.key.kind());
            return (Step::Refused(Refusal::KeyKind { name, kind }), None);
        }
        let secrets = keys.iter().map(|shared| (Some(&shared.key), &shared.secrets));
        let secrets = secrets.chain(keys.is_empty().then_some((None, &none)));
        let mut outcome = (Step::Refused(Refusal::OutOfTurn), None);
        for (key, secrets) in secrets.filter(|(key, _)| begun_with.is_none() || *key == begun_with.as_ref()) {
            let mut entropy = fill(&mut self.entropy);
            let view = ServiceView {
                service: EntityType::MON,
                policy: &policy,
                secrets,
                now: now.wall,
                // A monitor whose clock differs must be able to say so. The ticket was made for this connection alone.
                tolerance: Duration::MAX,
                peer: from,
                entropy: &mut entropy,
            };
            let (mut step, accept) = at_service(view, said, before.take().map(|(accept, _)| accept));
            if let (Step::Accepted(accepted), Some(key)) = (&mut step, key)
                && accepted.method == Method::Cephx
            {
                accepted.has_proven(key);
            }
            let goes_on = !matches!(step, Step::Refused(_));
            outcome = (step, accept.zip(key).map(|(accept, key)| Handshake::Peer(accept, key.clone())));
            if goes_on {
                break;
            }
        }
        outcome
    }

    /// Answers what the other end of a connection to the manager's address says to prove who it is.
    pub fn authenticate_at_manager(&mut self, now: Now, conn: ConnId, from: Option<IpAddr>, said: Said<'_>) -> Step {
        let before = match self.authentication.handshakes.remove(&conn) {
            Some((_, Handshake::Manager(accept))) => Some(accept),
            _ => None,
        };
        let none = Default::default();
        let policy = self.auth_policy(EntityType::CLIENT);
        let mut entropy = fill(&mut self.entropy);
        let view = ServiceView {
            service: EntityType::MGR,
            policy: &policy,
            secrets: self.state.service_secrets.get(&EntityType::MGR).unwrap_or(&none),
            now: now.wall,
            tolerance: TOLERANCE,
            peer: from,
            entropy: &mut entropy,
        };
        let (step, next) = at_service(view, said, before);
        drop(entropy);
        let step = match step {
            Step::Accepted(accepted) if accepted.method == Method::Cephx => self.as_known_now(accepted),
            step => step,
        };
        self.concluded(now, (conn, At::Manager), from, step, next.map(Handshake::Manager))
    }

    /// Judges a peer that has shown a ticket by what the state says of it now: its key may have been replaced or
    /// removed since, and its capabilities changed.
    fn as_known_now(&self, mut accepted: Box<Accepted>) -> Step {
        let Some(entry) = self.state.auth.get(&accepted.name.to_string()) else {
            return Step::Refused(Refusal::UnknownEntity(accepted.name));
        };
        if !entry.keys().any(|key| accepted.may_be_by(key)) {
            return Step::Refused(Refusal::WrongKey(accepted.name));
        }
        accepted.caps = Granted::Text(entry.caps.get("mgr").cloned().unwrap_or_default());
        Step::Accepted(accepted)
    }

    /// Keeps the outcome of a step.
    fn concluded(
        &mut self,
        now: Now,
        (conn, at): (ConnId, At),
        from: Option<IpAddr>,
        step: Step,
        next: Option<Handshake>,
    ) -> Step {
        match (&step, next) {
            (Step::More(_), Some(next)) => self.authentication.keep(conn, from, next),
            (Step::Accepted(accepted), _) => {
                let identity = Party::accepted(accepted, from);
                // A session that stands may go on over another connection: what its other end proves from now on is
                // what counts.
                let mut stands = self.sessions.values_mut().filter(|known| At::of(known) == at);
                let stands = stands.find(|known| known.is_of(&identity));
                if let Some(known) = stands {
                    known.identity = identity.clone();
                }
                self.authentication.keep(conn, from, Handshake::Accepted(at, Box::new(identity)));
            }
            (Step::Refused(refusal), _) => self.note_refusal(now, from, refusal),
            (Step::More(_), None) => {}
        }
        step
    }

    /// Tells the log of a refusal, unless it has told of many from the same machine.
    fn note_refusal(&mut self, now: Now, from: Option<IpAddr>, refusal: &Refusal) {
        if self.authentication.refusals_told.is_news(from, now.since_start) {
            let from = from.map_or_else(|| "unknown".to_owned(), |from| from.to_string());
            info!("a peer at {from} is refused: {refusal}");
        }
    }

    /// Forgets the handshake of a connection that is over.
    pub fn hung_up(&mut self, conn: ConnId) {
        self.authentication.handshakes.remove(&conn);
    }

    /// Finds out who is at the other end of a session that begins.
    pub(super) fn identify(&mut self, session: &mut Session) {
        session.identity = match self.authentication.take(session) {
            Some(identity) => identity,
            None if self.authentication.is_asked_for() => Party::unknown(&session.peer.auth_name),
            None => Party::claimed(&session.peer.auth_name),
        };
    }

    /// Returns what the other end of a session has proven, for the leader.
    pub fn proven(&self, session: SessionId) -> Option<Proven> {
        let identity = &self.sessions.get(&session)?.identity;
        let caps = match &identity.granted {
            Granted::Text(caps) if identity.standing == Standing::Proven => caps.clone(),
            _ => return None,
        };
        Some(Proven { caps, from: identity.from.map(|from| from.to_string()).unwrap_or_default() })
    }

    /// Returns another monitor's word on a party, if that monitor asks for proofs as this one does.
    pub(super) fn believed(&self, identity: Party) -> Party {
        match identity.standing {
            // A monitor that asks for nothing yet may tell of it, while a cluster goes over to proofs.
            Standing::Claimed
                if !self.auth_policy(identity.name.kind).methods(identity.from).contains(&Method::None) =>
            {
                Party::unknown(&identity.name)
            }
            _ => identity,
        }
    }

    /// Takes over the keys of the state: this monitor proves them, and accepts them from others.
    pub(super) fn follow_shared_keys(&mut self, now: Now, out: &mut Vec<MonitorAction>) {
        let stated = self.stated_keys();
        let keys = &mut self.authentication.among_monitors;
        if self.authentication.policy.is_some() && keys.follow(stated, now.since_start) {
            out.push(MonitorAction::SharedKeys(keys.for_keyring()));
        }
    }

    /// Turns away monitors that have proven a key whose time is over.
    pub(super) fn forget_ended_keys(&mut self, now: Now, out: &mut Vec<MonitorAction>) {
        if self.authentication.among_monitors.forget_ended(now.since_start) {
            self.judge_anew(out);
        }
    }

    /// Ends the sessions of those whose key was replaced or removed, and renews the rights of the others.
    pub(super) fn judge_anew(&mut self, out: &mut Vec<MonitorAction>) {
        let mut ended = Vec::new();
        for (session, known) in &mut self.sessions {
            if known.identity.standing != Standing::Proven {
                continue;
            }
            let (accepted, at_manager) = (known.identity.accepted.as_ref(), known.is_at_manager);
            if known.peer.name.kind == EntityType::MON && !at_manager {
                // A peer that connects as a monitor has proven a key that monitors share, whatever its name.
                let mut keys = self.authentication.among_monitors.good();
                if accepted.is_some_and(|accepted| !keys.any(|shared| accepted.proves(&shared.key))) {
                    ended.push(*session);
                }
                continue;
            }
            let name = known.identity.name.to_string();
            let entry = self.state.auth.get(&name);
            let is_good = entry.is_some_and(|entry| match accepted {
                Some(accepted) if at_manager => entry.keys().any(|key| accepted.may_be_by(key)),
                Some(accepted) => entry.keys().any(|key| accepted.proves(key)),
                None => true,
            });
            let service = if at_manager { "mgr" } else { "mon" };
            match entry.filter(|_| is_good).map(|entry| entry.caps.get(service)) {
                Some(Some(caps)) => known.identity.grant(Granted::Text(caps.clone())),
                Some(None) if at_manager => known.identity.grant(Granted::Text(String::new())),
                _ => ended.push(*session),
            }
        }
        self.end_sessions(ended, "its key is no longer good", out);
    }

    /// Ends sessions at the manager's address that began by tickets whose secrets are retired, or were replaced, a few
    /// at a time. Clients that have their keys have got other tickets meanwhile, and come again.
    pub(super) fn end_sessions_by_old_tickets(&mut self, out: &mut Vec<MonitorAction>) {
        let secrets = self.state.service_secrets.get(&EntityType::MGR);
        let oldest = secrets.map_or(0, |secrets| secrets.range().0);
        let is_ended = |known: &Session| {
            let accepted = known.identity.accepted.as_ref().filter(|_| known.is_at_manager);
            accepted.is_some_and(|accepted| accepted.is_by_secret_before(oldest))
        };
        let ended = self.sessions.iter().filter(|(_, known)| is_ended(known));
        let mut ended: Vec<SessionId> = ended.map(|(session, _)| *session).collect();
        ended.truncate(ended_at_once(ended.len()));
        self.end_sessions(ended, "its ticket has ended", out);
    }

    fn end_sessions(&mut self, ended: Vec<SessionId>, why: &str, out: &mut Vec<MonitorAction>) {
        for session in ended {
            self.proposals.forget(session);
            if let Some(gone) = self.sessions.remove(&session) {
                info!("{} at {}: closing its session, {why}", gone.identity.name, gone.peer.addrs);
                self.volatile.services.closed(session, self.volatile.now);
                out.push(MonitorAction::Close { session });
            }
        }
    }

    /// Answers a request for tickets or secrets on a session.
    pub(super) fn auth_request(
        &mut self,
        now: Now,
        session: SessionId,
        tid: u64,
        request: &msg::Auth,
        out: &mut Vec<MonitorAction>,
    ) {
        let known = &self.sessions[&session];
        let (peer, from, kind) = (known.identity.accepted.clone(), known.identity.from, known.peer.name.kind);
        let (global_id, method) = (known.peer.global_id, Method::Cephx.number());
        let answer = match peer {
            Some(mut peer) if request.method == method => {
                let answer = self.with_view(now, from, kind, |view| requests(view, &mut peer, &request.payload));
                self.sessions.get_mut(&session).expect("it asks").identity.accepted = Some(peer);
                answer
            }
            _ => Err(Refusal::Method(request.method)),
        };
        let reply = match answer {
            Ok(payload) => {
                msg::AuthReply { method, result: 0, global_id, payload: payload.into(), status: String::new() }
            }
            Err(refusal) => {
                let peer = &self.sessions[&session].peer;
                info!("{} at {}: a request for tickets is refused: {refusal}", peer.auth_name, peer.addrs);
                let result = refusal.errno().as_result();
                msg::AuthReply { method, result, global_id, payload: Default::default(), status: String::new() }
            }
        };
        self.send(session, tid, reply, out);
    }

    fn with_view<T>(
        &mut self,
        now: Now,
        from: Option<IpAddr>,
        peer: EntityType,
        part: impl FnOnce(&mut MonitorView<'_>) -> T,
    ) -> T {
        let policy = self.auth_policy(peer);
        let lifetimes = good_for(&self.state, now.wall);
        let authentication = &mut self.authentication;
        part(&mut MonitorView {
            policy: &policy,
            entities: &KnownEntities(&self.state.auth),
            secrets: &self.state.service_secrets,
            lifetimes,
            new_global_id: &mut || authentication.next_id(),
            now: now.wall,
            tolerance: TOLERANCE,
            peer: from,
            entropy: &mut fill(&mut self.entropy),
        })
    }

    /// True for a monitor that asks for no proofs, if others will soon: an option says so that a cluster has which goes
    /// over to them. They let nobody in before there are secrets, and perhaps this one leads.
    fn others_will_give_tickets(&self) -> bool {
        self.state.mon_option("", "auth_service_required").is_some_and(|methods| methods.contains("cephx"))
    }

    /// The time for which a secret of a service is the one that tickets are sealed with.
    fn secrets_live(&self, service: EntityType) -> Duration {
        let lifetimes = lifetimes(&self.state);
        if service == EntityType::AUTH { lifetimes.monitor } else { lifetimes.service }
    }

    /// For a leader: adds new secrets in place of those that daemons know whose keys these updates remove or replace.
    /// Whoever has such a key could make tickets by them in anybody's name. Each time all sessions end. So those who
    /// lose their keys soon after the last time share the next one.
    pub(super) fn replace_known_secrets(&mut self, now: Now, updates: &mut Vec<Update>) {
        let mut known = BTreeSet::new();
        for update in updates.iter() {
            let Update::Auth { entity, entry } = update else { continue };
            let Some(before) = self.state.auth.get(entity).filter(|before| loses_key(before, entry.as_ref())) else {
                continue;
            };
            let kind = auth::keyring::parse_entity(entity).map(|name| name.kind);
            known.extend(kind.filter(|kind| DAEMONS.contains(kind)));
            tracing::debug!("'{entity}' loses a key of kind {}", before.key.kind());
        }
        let kind = self.state.kind_of_secrets();
        for service in known {
            let Some(mut secrets) = self.state.service_secrets.get(&service).cloned() else { continue };
            let changed = match secrets.settle_until(now.wall, REPLACED_AGAIN_AFTER) {
                Some(until) => secrets.end_at(until),
                None => {
                    secrets.replace(now.wall, self.secrets_live(service), kind, &mut fill(&mut self.entropy));
                    true
                }
            };
            updates.extend(changed.then_some(Update::ServiceSecrets { service, secrets }));
        }
    }

    /// The newest secret of each service whose daemons get its secrets.
    pub(super) fn newest_secrets(&self) -> NewestSecrets {
        DAEMONS.map(|service| self.state.service_secrets.get(&service).map_or(0, |secrets| secrets.range().1))
    }

    /// Gives those who are connected new tickets, and daemons new secrets, where none is left of those that the state
    /// had when its newest were `before`.
    pub(super) fn give_anew(&mut self, now: Now, before: NewestSecrets, out: &mut Vec<MonitorAction>) {
        for (service, newest) in DAEMONS.into_iter().zip(before) {
            if self.state.service_secrets.get(&service).is_some_and(|secrets| secrets.are_all_after(newest)) {
                self.give_anew_to_all(now, service, out);
            }
        }
    }

    fn give_anew_to_all(&mut self, now: Now, service: EntityType, out: &mut Vec<MonitorAction>) {
        info!("the secrets that seal tickets for service '{}' are replaced, all at once", service.word());
        let sessions: Vec<SessionId> = self.sessions.keys().copied().collect();
        sessions.into_iter().for_each(|session| self.give_anew_to(now, session, &[service], out));
        for (_, handshake) in self.authentication.handshakes.values_mut() {
            if let Handshake::Accepted(_, party) = handshake
                && let Some(accepted) = &mut party.accepted
            {
                accepted.may_hold_former_tickets();
            }
        }
    }

    /// Gives one who has come again new tickets for services whose secrets were all made since it was here: of the
    /// tickets that it has it asks for others only when they grow old.
    pub(super) fn give_to_returned(&mut self, now: Now, session: SessionId, out: &mut Vec<MonitorAction>) {
        let known = self.sessions.get(&session);
        let Some(accepted) = known.and_then(|known| known.identity.accepted.as_ref()) else { return };
        let are_newer = |service: &EntityType| {
            let since = self.state.service_secrets.get(service).and_then(RotatingSecrets::since);
            // Two monitors' clocks made the ticket and the secrets.
            since.is_some_and(|since| accepted.came_before(later(since, TOLERANCE)))
        };
        let services: Vec<EntityType> = DAEMONS.into_iter().filter(are_newer).collect();
        if !services.is_empty() {
            self.give_anew_to(now, session, &services, out);
        }
    }

    /// Gives a party new tickets, once it has asked for the monitor map. Ceph's clients take any such message for the
    /// end of their login: one that has no monitor map yet would go on without, and name no cluster in its commands.
    fn give_anew_to(&mut self, now: Now, session: SessionId, services: &[EntityType], out: &mut Vec<MonitorAction>) {
        let Some(known) = self.sessions.get_mut(&session) else { return };
        if !known.has_asked_for_map && known.tickets_due.len() > 99 {
            known.tickets_due.extend(services);
            return;
        }
        let Some(peer) = known.identity.accepted.clone().filter(|_| !known.is_at_manager) else { return };
        let (from, kind, global_id) = (known.identity.from, known.peer.name.kind, known.peer.global_id);
        if peer.method != Method::Cephx || kind == EntityType::MON {
            return;
        }
        let method = Method::Cephx.number();
        for payload in self.with_view(now, from, kind, |view| given_anew(view, &peer, services)) {
            let status = String::new();
            let reply = msg::AuthReply { method, result: 0, global_id, payload: payload.into(), status };
            self.send(session, 0, reply, out);
        }
    }

    /// Gives the tickets that waited until the party asked for the monitor map. The map has been sent before.
    pub(super) fn give_what_is_due(&mut self, now: Now, session: SessionId, out: &mut Vec<MonitorAction>) {
        let Some(known) = self.sessions.get_mut(&session) else { return };
        known.has_asked_for_map = true;
        let due: Vec<EntityType> = std::mem::take(&mut known.tickets_due).into_iter().collect();
        if !due.is_empty() {
            self.give_anew_to(now, session, &due, out);
        }
    }

    /// For a leader: adds new secrets of services whose present ones grow old.
    pub(super) fn secret_updates(&mut self, now: Now, updates: &mut Vec<Update>) {
        if !self.authentication.gives_tickets() && !self.others_will_give_tickets() {
            return;
        }
        let kind = self.state.kind_of_secrets();
        for service in SERVICES {
            let mut secrets = self.state.service_secrets.get(&service).cloned().unwrap_or_default();
            let lifetime = self.secrets_live(service);
            let ahead = secrets.bring_forward(now.wall, lifetime, TOLERANCE);
            if let Some(by) = ahead {
                let text = format!(
                    "the secrets that seal tickets for service '{}' were made by a clock that was {} s ahead; they change \
                     in time from now on",
                    service.word(),
                    by.as_secs()
                );
                tracing::warn!("{text}");
                self.note(now, LogPriority::WARN, text);
            }
            if secrets.rotate(now.wall, lifetime, kind, &mut fill(&mut self.entropy)) || ahead.is_some() {
                updates.push(Update::ServiceSecrets { service, secrets });
            }
        }
    }
}

/// Services whose daemons get their secrets. Those of monitors are none of them: monitors know each other by the key
/// that they share.
const DAEMONS: [EntityType; 3] = [EntityType::MDS, EntityType::OSD, EntityType::MGR];

/// The number of the newest secret of each of [`DAEMONS`]; 0 where there is none.
pub(super) type NewestSecrets = [u64; DAEMONS.len()];

/// True if somebody's key is no longer good with `after`. A pending key that takes the place of the former was asked
/// for by an operator who has time.
fn loses_key(before: &AuthEntry, after: Option<&AuthEntry>) -> bool {
    let is_lost = |key: &Key| after.is_none_or(|after| !after.keys().any(|good| good == key));
    let is_planned = after.is_some_and(|after| before.pending_key.as_ref() == Some(&after.key));
    before.keys().any(is_lost) && !is_planned
}

/// Answers a party that shows a ticket. `goes_on`: the handshake as it is kept.
fn at_service(
    mut view: ServiceView<'_>,
    said: Said<'_>,
    before: Option<ServiceAccept>,
) -> (Step, Option<ServiceAccept>) {
    match (said, before) {
        (Said::Request { method, modes, payload, .. }, None) => ServiceAccept::begin(&mut view, method, modes, payload),
        (Said::More(payload), Some(accept)) => (accept.more(&mut view, payload), None),
        _ => (Step::Refused(Refusal::OutOfTurn), None),
    }
}

/// The policy where nobody proves anything.
fn nobody_proves() -> ServerPolicy {
    ServerPolicy { cephx: false, none: auth::NoneFrom::Everybody, ..ServerPolicy::cephx() }
}

/// Random bytes of a monitor's source, as many as are wanted.
pub(crate) fn fill(source: &mut super::Entropy) -> impl FnMut(&mut [u8]) {
    move |out: &mut [u8]| {
        for chunk in out.chunks_mut(32) {
            chunk.copy_from_slice(&source()[..chunk.len()]);
        }
    }
}

/// Returns the times for which tickets are good by the options.
fn lifetimes(state: &MonState) -> TicketLifetimes {
    let seconds = |option: &str, default: Duration| {
        let seconds = state.mon_number::<f64>(option).and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        seconds.filter(|lifetime| !lifetime.is_zero()).map_or(default, |lifetime| lifetime.max(TICKET_LIFETIME_MIN))
    };
    let default = TicketLifetimes::default();
    TicketLifetimes {
        monitor: seconds("auth_mon_ticket_ttl", default.monitor),
        service: seconds("auth_service_ticket_ttl", default.service),
    }
}

/// Returns the times for which tickets of this moment are good: no longer than their secrets are kept, also after an
/// option was raised.
fn good_for(state: &MonState, now: Utime) -> TicketLifetimes {
    let TicketLifetimes { monitor, service } = lifetimes(state);
    let kept = |services: &[EntityType]| {
        let secrets = services.iter().filter_map(|service| state.service_secrets.get(service));
        let newest = secrets.filter_map(|secrets| secrets.find(secrets.range().1));
        newest.map(|secret| secret.expires.to_unix().saturating_sub(now.to_unix())).min().unwrap_or(Duration::MAX)
    };
    let (of_monitors, of_daemons) = (kept(&SERVICES[..1]), kept(&SERVICES[1..]));
    TicketLifetimes {
        monitor: monitor.min(of_monitors).max(TICKET_LIFETIME_MIN),
        service: service.min(of_daemons).max(TICKET_LIFETIME_MIN),
    }
}
