//! The agents of a run, at work on one iteration.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use bench::recorder::{Rounds, Total};
use tokio::time::Instant;

use crate::control::Phase;
use crate::crew::{Crew, Share};
use crate::threads::Report;

use super::links::{AgentError, Agents, Happening};
use super::protocol::{Begin, FromAgent, Samples, Step, ToAgent};

/// Agents learn the start of the load [`LEAD`] and [`LEAD_ROUND_TRIPS`] round trips before it.
const LEAD: Duration = Duration::from_millis(250);
const LEAD_ROUND_TRIPS: u32 = 4;
/// Time after a round's end in which agents must tell its operations; time to send their results; time to end.
const TOLD_WITHIN: Duration = Duration::from_secs(3);
const GATHERED_WITHIN: Duration = Duration::from_secs(30);
const ENDED_WITHIN: Duration = Duration::from_secs(30);
/// Largest record over time that an agent may send for one iteration.
const RECORD_BYTES_MAX: usize = 64 << 20;

/// All agents of a run, with the data that they have sent about this iteration.
pub struct AgentCrew<'a> {
    agents: &'a mut Agents,
    rounds: Rounds,
    groups: usize,
    members: Vec<Member>,
    reports: VecDeque<Report>,
    gathering: bool,
}

/// The data that one agent has sent.
#[derive(Default)]
pub struct Member {
    /// The agent has failed and will reach no later step.
    failed: bool,
    prepared: bool,
    prepared_bytes: u64,
    totals: Vec<Total>,
    /// Operations by round and group.
    by_round: BTreeMap<u32, Vec<u64>>,
    shares: BTreeMap<usize, Share>,
    pub samples: Samples,
    /// Record over time of the agent's machine.
    pub record: String,
    gathered: bool,
    ended: bool,
}

impl<'a> AgentCrew<'a> {
    /// Compares clocks, and has all agents begin to connect. Each gets its own `begin.part`.
    ///
    /// Errors: an agent is lost.
    pub async fn begin(agents: &'a mut Agents, begin: Begin, rounds: Rounds) -> Result<AgentCrew<'a>, AgentError> {
        agents.compare_clocks().await?;
        let carriers = agents.carriers();
        let mut number = 0;
        for link in &agents.links {
            let mut begin = begin.clone();
            if !link.machine.watch_only {
                begin.part = Some((number, carriers));
                number += 1;
            }
            link.tell(ToAgent::Begin(Box::new(begin)));
        }
        let groups = begin.plan.workloads[begin.workload as usize].groups.len();
        let members = agents.links.iter().map(|_| Member::default()).collect();
        Ok(AgentCrew { agents, rounds, groups, members, reports: VecDeque::new(), gathering: false })
    }

    /// The data that each agent has sent, in the order of [`Agents::links`].
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    pub fn agents(&self) -> &Agents {
        self.agents
    }

    fn tell_all(&self, message: &ToAgent) {
        self.agents.links.iter().filter(|link| link.lost.is_none()).for_each(|link| link.tell(message.clone()));
    }

    /// True if `are` holds for every agent that is not lost.
    fn all(&self, are: impl Fn(&Member) -> bool) -> bool {
        let pairs = self.agents.links.iter().zip(&self.members);
        pairs.into_iter().all(|(link, member)| link.lost.is_some() || are(member))
    }

    fn fail(&mut self, index: usize, reason: String) {
        let member = &mut self.members[index];
        if !std::mem::replace(&mut member.failed, true) {
            self.reports.push_back(Report::Failed(reason));
        }
    }

    /// Handles one message. `None` if no more can come.
    async fn advance(&mut self) -> Option<()> {
        if self.agents.links.iter().all(|link| link.lost.is_some()) {
            return None;
        }
        let (index, happening) = self.agents.next().await?;
        self.handle(index, happening);
        Some(())
    }

    fn lose(&mut self, index: usize, reason: String) {
        self.agents.lose(index, reason);
        let link = &self.agents.links[index];
        let share = if link.machine.watch_only { "what its machine spent" } else { "its share of the load" };
        let why = link.lost.as_deref().unwrap_or_default();
        let said = format!("agent {} was lost ({why}); {share} is missing", link.name);
        self.fail(index, said);
    }

    fn handle(&mut self, index: usize, happening: Happening) {
        let message = match happening {
            Happening::Lost(reason) => return self.lose(index, reason),
            Happening::Message(message, ..) => *message,
        };
        let member = &mut self.members[index];
        let reports = &mut self.reports;
        let mut wrong = None;
        match message {
            FromAgent::Pong { .. } => {}
            FromAgent::Reached(_) if member.failed => {}
            FromAgent::Reached(Step::Connected) => reports.push_back(Report::Connected),
            FromAgent::Reached(Step::Prefilled) => reports.push_back(Report::Prefilled),
            FromAgent::Reached(Step::Prepared) => member.prepared = true,
            FromAgent::Reached(Step::Loaded) => reports.push_back(Report::Loaded),
            FromAgent::Reached(Step::Cleaned) => reports.push_back(Report::Cleaned),
            FromAgent::Failed { reason } => {
                let said = format!("agent {}: {reason}", self.agents.links[index].name);
                self.fail(index, said);
            }
            FromAgent::Live { prepared_bytes, totals } => {
                // Between iterations an agent has no groups.
                if totals.len() == self.groups {
                    (member.prepared_bytes, member.totals) = (prepared_bytes, totals);
                }
            }
            FromAgent::Round { round, operations } => {
                if operations.len() != self.groups || round >= self.rounds.count_max {
                    wrong = Some(format!("it told of round {round} with {} groups", operations.len()));
                } else {
                    member.by_round.insert(round, operations);
                }
            }
            FromAgent::Group(data) => match (data.index, data.share(self.rounds)) {
                (index, Ok(share)) if index < self.groups => drop(member.shares.insert(index, share)),
                (index, Ok(_)) => wrong = Some(format!("it told of group {index}")),
                (_, Err(reason)) => wrong = Some(format!("what it measured makes no sense: {reason}")),
            },
            FromAgent::Samples(samples) => member.samples = *samples,
            FromAgent::Record { text } if member.record.len() + text.len() <= RECORD_BYTES_MAX => {
                member.record.push_str(&text);
            }
            FromAgent::Record { .. } => wrong = Some("its record over time has no end".into()),
            FromAgent::Gathered => member.gathered = true,
            FromAgent::Ended => member.ended = true,
        }
        if let Some(reason) = wrong {
            self.lose(index, reason);
        }
    }

    /// Handles messages until `are` holds for every agent that is not lost. Gives up agents for which it does not
    /// within `limit`.
    async fn until(&mut self, limit: Duration, what: &str, are: impl Fn(&Member) -> bool) {
        let end = Instant::now() + limit;
        while !self.all(&are) {
            tokio::select! {
                biased;
                advanced = self.advance() => if advanced.is_none() { return },
                () = tokio::time::sleep_until(end) => break,
            }
        }
        for index in 0..self.members.len() {
            if self.agents.links[index].lost.is_none() && !are(&self.members[index]) {
                self.lose(index, format!("it did not {what} within {} s", limit.as_secs()));
            }
        }
    }
}

impl Crew for AgentCrew<'_> {
    fn count(&self) -> usize {
        self.members.iter().filter(|member| !member.failed).count()
    }

    fn lead(&self) -> Duration {
        let uncertainty =
            self.agents.links.iter().filter_map(|link| link.monotonic).map(|offset| offset.uncertainty_ns);
        let uncertainty = u64::try_from(uncertainty.max().unwrap_or(0)).unwrap_or(0);
        LEAD + Duration::from_nanos(uncertainty).saturating_mul(2 * LEAD_ROUND_TRIPS)
    }

    fn go(&mut self, phase: Phase) {
        let message = match phase {
            Phase::Connect => return,
            Phase::Prefill => ToAgent::Prefill,
            Phase::Stop => ToAgent::Stop,
            Phase::Clean => ToAgent::Clean,
            Phase::End => ToAgent::End,
            Phase::Load(start) => {
                let ours_ns = i128::try_from((start - self.agents.epoch).as_nanos()).unwrap_or(i128::MAX);
                for link in &self.agents.links {
                    let theirs_ns = link.monotonic.map_or(ours_ns, |offset| offset.theirs_ns(ours_ns));
                    link.tell(ToAgent::Load { at_ns: u64::try_from(theirs_ns).unwrap_or(0) });
                }
                return;
            }
        };
        self.tell_all(&message);
    }

    async fn report(&mut self) -> Option<Report> {
        loop {
            if let Some(report) = self.reports.pop_front() {
                return Some(report);
            }
            self.advance().await?;
        }
    }

    async fn prepare(&mut self) -> Result<(), String> {
        self.tell_all(&ToAgent::Prepare);
        loop {
            if let Some(Report::Failed(reason)) = self.reports.pop_front() {
                return Err(reason);
            }
            if self.reports.is_empty() && self.all(|member| member.prepared) {
                return Ok(());
            }
            if self.reports.is_empty() && self.advance().await.is_none() {
                return Err("all agents are lost".into());
            }
        }
    }

    fn prepared_bytes(&self) -> u64 {
        self.members.iter().map(|member| member.prepared_bytes).sum()
    }

    fn total(&self, group: usize) -> Total {
        let mut sum = Total::default();
        self.members.iter().filter_map(|member| member.totals.get(group)).for_each(|total| sum.add(*total));
        sum
    }

    async fn told(&mut self, round: u32) {
        self.until(TOLD_WITHIN, "tell what it did in a round", |member| member.by_round.contains_key(&round)).await;
    }

    fn operations_of(&self, group: usize, round: u32) -> u64 {
        self.members.iter().filter_map(|member| member.by_round.get(&round)?.get(group)).sum()
    }

    async fn gather(&mut self, counted: (u32, u32)) -> Vec<Share> {
        self.gathering = true;
        self.tell_all(&ToAgent::Gather { rounds: counted });
        self.until(GATHERED_WITHIN, "tell what it measured", |member| member.gathered).await;
        let of_group = |group: usize| {
            let mut all = Share::empty(self.rounds);
            // The shares of an agent that was lost half-way do not count: they would look like the whole.
            let shares = self.members.iter().filter(|member| member.gathered);
            shares.filter_map(|member| member.shares.get(&group)).for_each(|share| all.merge(share.clone()));
            all
        };
        (0..self.groups).map(of_group).collect()
    }

    fn missing(&self) -> Vec<String> {
        let pairs = self.agents.links.iter().zip(&self.members);
        let missing = pairs.filter(|(link, member)| !member.gathered && (self.gathering || link.lost.is_some()));
        missing.map(|(link, _)| link.name.clone()).collect()
    }

    async fn end(&mut self) {
        if !self.all(|member| member.ended) {
            self.tell_all(&ToAgent::End);
            self.until(ENDED_WITHIN, "end its work", |member| member.ended).await;
        }
    }
}
