//! The coordinator's connections to agents.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bench::clock::{Exchange, Offset};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::frames::{self, FrameError, GREETING_BYTES_MAX, MESSAGE_BYTES_MAX, Reader, Writer};
use super::protocol::{FORMAT, FromAgent, Greeting, Hello, Machine, Proof, ToAgent, VERSION};
use super::sealing::{Nonce, TokenProofs};
use auth::secure::Side;

/// Time limit for connecting, and for the greeting.
const PATIENCE: Duration = Duration::from_secs(5);
/// Interval of signs of life.
const PING_EVERY: Duration = Duration::from_secs(1);
/// An agent that is silent for [`SILENT_MAX`] of these intervals is lost. Agents tell their progress twice a second.
const SILENCE: Duration = Duration::from_millis(500);
const SILENT_MAX: u32 = 12;
/// Round trips per comparison of clocks.
const ROUND_TRIPS: u64 = 8;

/// The reason why agents cannot be used. Nothing has been changed on any cluster.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    #[error("agent {agent} cannot be reached: {reason}; is 'nacre bench agent' running there?")]
    Unreachable { agent: String, reason: String },
    #[error("{agent} is no agent: {reason}")]
    NoAgent { agent: String, reason: String },
    #[error(
        "agent {agent} speaks protocol version {theirs} ({program}), this program version {VERSION}; \
         run the same release on all machines"
    )]
    Version { agent: String, theirs: u32, program: String },
    #[error("agent {agent} refuses: {reason}")]
    Refused { agent: String, reason: String },
    #[error("agent {agent} asks for no token: start it with '--token-file', or leave that out here")]
    Unproven { agent: String },
    #[error("{agent} does not know the token: it is not the agent that is meant")]
    NotProven { agent: String },
    #[error("agent {agent} was lost: {reason}")]
    Lost { agent: String, reason: String },
    #[error("all agents only watch; name one that carries load")]
    OnlyWatchers,
    #[error(
        "{agents} agents carry load, and workload {workload} has {instances} instances: each agent needs one \
         (--instances, or the plan)"
    )]
    TooFewInstances { agents: usize, workload: String, instances: u32 },
}

/// The connection to one agent.
pub struct Link {
    /// The agent's address as the user gave it.
    pub name: String,
    pub program: String,
    pub machine: Machine,
    /// The reason why the agent cannot be used any more.
    pub lost: Option<String>,
    /// Offset of the agent's monotonic clock, which counts from its start, to the coordinator's, which counts from
    /// [`Agents::epoch`].
    pub monotonic: Option<Offset>,
    /// Offset of the agent's time of day.
    pub wall: Option<Offset>,
    to: mpsc::UnboundedSender<ToAgent>,
    reader: JoinHandle<()>,
}

/// An event of a connection to an agent.
#[derive(Debug)]
pub enum Happening {
    /// A message, with the monotonic time and the time of day at which it was read.
    Message(Box<FromAgent>, Instant, SystemTime),
    Lost(String),
}

/// The connections to all agents of a run. Dropping them closes the connections, at which agents end their work.
pub struct Agents {
    pub links: Vec<Link>,
    events: mpsc::UnboundedReceiver<(usize, Happening)>,
    /// Start of the coordinator's clock.
    pub epoch: Instant,
}

impl Drop for Link {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

impl Link {
    /// Sends a message, unless the agent is lost.
    pub fn tell(&self, message: ToAgent) {
        let _ = self.to.send(message);
    }
}

impl Agents {
    /// Facts about the agents, by the names that they have in results.
    pub fn facts(&self) -> BTreeMap<String, String> {
        let mut facts = BTreeMap::new();
        let mut hosts = BTreeMap::new();
        for link in &self.links {
            let mut add = |name: &str, value: String| facts.insert(format!("agent.{}.{name}", link.name), value);
            add("program", link.program.clone());
            add("part", if link.machine.watch_only { "watches".into() } else { "carries load".into() });
            let ns =
                |offset: Option<i128>| offset.map_or("not available".into(), |ns| format!("{:.1}", ns as f64 / 1000.0));
            add("time_of_day_offset_us", ns(link.wall.map(|offset| offset.offset_ns)));
            add("time_of_day_uncertainty_us", ns(link.wall.map(|offset| offset.uncertainty_ns)));
            add("start_uncertainty_us", ns(link.monotonic.map(|offset| offset.uncertainty_ns)));
            for (name, value) in &link.machine.facts {
                add(name, value.clone());
            }
            hosts.insert(&link.machine.id, link.machine.processors);
        }
        facts.insert("agents.processors".into(), hosts.values().sum::<usize>().to_string());
        facts
    }

    /// Connects to all of `addresses`, and compares clocks.
    ///
    /// Errors: [`AgentError`] for the first that cannot be used.
    pub async fn connect(addresses: &[String], program: &str, token: Option<&str>) -> Result<Agents, AgentError> {
        let (sender, events) = mpsc::unbounded_channel();
        let mut links = Vec::new();
        for (index, address) in addresses.iter().enumerate() {
            let Greeted { from, to, program: theirs, machine } = greet(address, program, token).await?;
            let (outbox, outgoing) = mpsc::unbounded_channel();
            tokio::spawn(write(to, outgoing));
            links.push(Link {
                name: address.clone(),
                program: theirs,
                machine,
                lost: None,
                monotonic: None,
                wall: None,
                to: outbox,
                reader: tokio::spawn(read(index, from, sender.clone())),
            });
        }
        let mut agents = Agents { links, events, epoch: Instant::now() };
        if !agents.links.iter().any(|link| !link.machine.watch_only) {
            return Err(AgentError::OnlyWatchers);
        }
        agents.compare_clocks().await?;
        Ok(agents)
    }

    /// Number of agents that carry load.
    pub fn carriers(&self) -> usize {
        self.links.iter().filter(|link| !link.machine.watch_only).count()
    }

    /// The next event; `None` once all agents are lost. May be cancelled and called again.
    pub async fn next(&mut self) -> Option<(usize, Happening)> {
        let (index, happening) = self.events.recv().await?;
        if let Happening::Lost(reason) = &happening {
            self.links[index].lost.get_or_insert_with(|| reason.clone());
        }
        Some((index, happening))
    }

    /// Gives an agent up.
    pub fn lose(&mut self, index: usize, reason: String) {
        let link = &mut self.links[index];
        link.lost.get_or_insert(reason);
        link.reader.abort();
        // This drops the sender of the writer. The writer then ends, and closes the connection.
        link.to = mpsc::unbounded_channel().0;
    }

    /// Compares the clocks of all agents. Other messages that arrive meanwhile are dropped.
    ///
    /// Errors: an agent is lost.
    pub async fn compare_clocks(&mut self) -> Result<(), AgentError> {
        for index in 0..self.links.len() {
            let (mut monotonic, mut wall) = (Vec::new(), Vec::new());
            for number in 1..=ROUND_TRIPS {
                let (sent, sent_wall) = (Instant::now(), SystemTime::now());
                self.links[index].tell(ToAgent::Ping { number });
                let (answer, received, received_wall) = self.pong(index, number).await?;
                let since = |time: Instant| nanoseconds(time.saturating_duration_since(self.epoch));
                let (sent_ns, received_ns) = (since(sent), since(received));
                monotonic.push(Exchange { sent_ns, theirs_ns: answer.0.into(), received_ns });
                let of_day = |time: SystemTime| time.duration_since(UNIX_EPOCH).map_or(0, nanoseconds);
                let (sent_ns, received_ns) = (of_day(sent_wall), of_day(received_wall));
                wall.push(Exchange { sent_ns, theirs_ns: answer.1.into(), received_ns });
            }
            let link = &mut self.links[index];
            (link.monotonic, link.wall) = (Offset::best(&monotonic), Offset::best(&wall));
        }
        Ok(())
    }

    /// Waits for the answer to ping `number` of agent `wanted`. Returns the agent's times, and ours when the answer
    /// came.
    async fn pong(&mut self, wanted: usize, number: u64) -> Result<((u64, u64), Instant, SystemTime), AgentError> {
        loop {
            if let Some((index, link)) = self.links.iter().enumerate().find(|(_, link)| link.lost.is_some()) {
                debug_assert!(index < self.links.len());
                let reason = link.lost.clone().unwrap_or_default();
                return Err(AgentError::Lost { agent: link.name.clone(), reason });
            }
            // A silent agent becomes lost, so this loop ends.
            let Some((index, happening)) = self.next().await else {
                let agent = self.links[wanted].name.clone();
                return Err(AgentError::Lost { agent, reason: "the connection was closed".into() });
            };
            if let Happening::Message(message, received, wall) = happening
                && let FromAgent::Pong { number: got, monotonic_ns, wall_ns } = *message
                && (index, got) == (wanted, number)
            {
                return Ok(((monotonic_ns, wall_ns), received, wall));
            }
        }
    }
}

fn nanoseconds(time: Duration) -> i128 {
    i128::try_from(time.as_nanos()).unwrap_or(i128::MAX)
}

/// A connection to an agent that serves.
struct Greeted {
    from: Reader<OwnedReadHalf>,
    to: Writer<OwnedWriteHalf>,
    program: String,
    machine: Machine,
}

/// The error where no agent answers, or none that serves.
fn no_agent(address: &str, reason: impl ToString) -> AgentError {
    AgentError::NoAgent { agent: address.to_owned(), reason: reason.to_string() }
}

async fn greet(address: &str, program: &str, token: Option<&str>) -> Result<Greeted, AgentError> {
    let unreachable = |reason: String| AgentError::Unreachable { agent: address.to_owned(), reason };
    let stream = tokio::time::timeout(PATIENCE, TcpStream::connect(address)).await;
    let stream = stream.map_err(|_| unreachable(format!("no connection within {} s", PATIENCE.as_secs())))?;
    let stream = stream.map_err(|e| unreachable(e.to_string()))?;
    let _ = stream.set_nodelay(true);
    stdx::notice_dead_peers(&stream);
    let (from, to) = stream.into_split();
    let (mut from, mut to) = (Reader::new(from), Writer::new(to));
    let own = token.map(|_| Nonce::draw());
    let hello = Hello::new(program, own.map(Nonce::to_text));
    to.write(&hello).await.map_err(|e| no_agent(address, e))?;
    let mut greeting = heard_greeting(address, &mut from).await?;
    if let Some((token, own)) = token.zip(own) {
        let Some(theirs) = greeting.nonce.as_deref().and_then(Nonce::from_text) else {
            return Err(AgentError::Unproven { agent: address.to_owned() });
        };
        let proofs = TokenProofs::new(token, &own, &theirs);
        to.write(&Proof { proof: proofs.coordinators() }).await.map_err(|e| no_agent(address, e))?;
        let answer = heard(address, &mut from).await?;
        let Ok(Proof { proof }) = frames::decode(&answer) else {
            // Whoever is there takes the proof for wrong.
            let refusal: Greeting = frames::decode(&answer).map_err(|e| no_agent(address, e))?;
            let reason = refusal.refused.unwrap_or_default();
            return Err(AgentError::Refused { agent: address.to_owned(), reason });
        };
        if !proofs.is_agents(&proof) {
            return Err(AgentError::NotProven { agent: address.to_owned() });
        }
        let (sealer, opener) = proofs.directions(Side::Connecting);
        from.open_with(opener);
        to.seal_with(sealer);
        greeting = heard_greeting(address, &mut from).await?;
    }
    let machine = greeting.machine.ok_or_else(|| no_agent(address, "it does not say where it runs"))?;
    Ok(Greeted { from, to, program: greeting.program, machine })
}

/// The next message of a peer that is still unknown.
async fn heard(address: &str, from: &mut Reader<OwnedReadHalf>) -> Result<Vec<u8>, AgentError> {
    let answer = tokio::time::timeout(PATIENCE, from.read(GREETING_BYTES_MAX)).await;
    let answer = answer.map_err(|_| no_agent(address, format!("no answer within {} s", PATIENCE.as_secs())))?;
    answer.map_err(|e| no_agent(address, e))
}

/// The greeting of an agent that speaks this protocol and does not refuse.
async fn heard_greeting(address: &str, from: &mut Reader<OwnedReadHalf>) -> Result<Greeting, AgentError> {
    let agent = || address.to_owned();
    let answer = heard(address, from).await?;
    let greeting: Greeting = frames::decode(&answer).map_err(|e| no_agent(address, e))?;
    if greeting.format != FORMAT {
        return Err(no_agent(address, format!("it says format {:?}", greeting.format)));
    }
    if greeting.version != VERSION {
        return Err(AgentError::Version { agent: agent(), theirs: greeting.version, program: greeting.program });
    }
    match greeting.refused {
        Some(reason) => Err(AgentError::Refused { agent: agent(), reason }),
        None => Ok(greeting),
    }
}

async fn write(mut to: Writer<OwnedWriteHalf>, mut outgoing: mpsc::UnboundedReceiver<ToAgent>) {
    loop {
        let message = tokio::select! {
            message = outgoing.recv() => message,
            () = tokio::time::sleep(PING_EVERY) => Some(ToAgent::Ping { number: 0 }),
        };
        let Some(message) = message else { return };
        if to.write(&message).await.is_err() {
            // The reading side reports the broken connection.
            return;
        }
    }
}

async fn read(index: usize, mut from: Reader<OwnedReadHalf>, events: mpsc::UnboundedSender<(usize, Happening)>) {
    loop {
        let next = match hear(&mut from).await {
            Ok(message) => Happening::Message(Box::new(message), Instant::now(), SystemTime::now()),
            Err(reason) => Happening::Lost(reason),
        };
        let lost = matches!(next, Happening::Lost(_));
        if events.send((index, next)).is_err() || lost {
            return;
        }
    }
}

/// The next message. Errors: the reason why none will come.
async fn hear(from: &mut Reader<OwnedReadHalf>) -> Result<FromAgent, String> {
    let frame = from.read(MESSAGE_BYTES_MAX);
    tokio::pin!(frame);
    let mut silent = 0;
    loop {
        tokio::select! {
            biased;
            bytes = &mut frame => {
                return bytes.and_then(|bytes| frames::decode(&bytes)).map_err(|e: FrameError| e.to_string());
            }
            // Intervals are counted one by one, so that a coordinator that was itself suspended does not blame agents.
            () = tokio::time::sleep(SILENCE) => {
                silent += 1;
                if silent > SILENT_MAX {
                    return Err(format!("it said nothing for {} s", (SILENCE * SILENT_MAX).as_secs()));
                }
            }
        }
    }
}
