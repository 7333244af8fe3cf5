//! The coordinator's connections to agents.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bench::clock::{Exchange, Offset};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::frames::{self, FrameError, GREETING_BYTES_MAX, MESSAGE_BYTES_MAX};
use super::protocol::{FORMAT, FromAgent, Greeting, Hello, Machine, ToAgent, VERSION};

/// Connecting, and greeting, must be done within so long each.
const PATIENCE: Duration = Duration::from_secs(5);
/// A sign of life goes out as often.
const PING_EVERY: Duration = Duration::from_secs(1);
/// An agent that is not heard for so many of these is lost. It tells twice a second how far it is.
const SILENCE: Duration = Duration::from_millis(500);
const SILENT_MAX: u32 = 12;
/// Round trips per comparison of clocks.
const ROUND_TRIPS: u64 = 8;

/// Why agents cannot be used. Nothing has been changed on any cluster.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    #[error("agent {agent} cannot be reached: {reason}; is 'nacre bench agent' running there?")]
    Unreachable { agent: String, reason: String },
    #[error("{agent} is no agent: {reason}")]
    NoAgent { agent: String, reason: String },
    #[error(
        "agent {agent} speaks protocol version {theirs} ({program}), this program version {VERSION}; run the same release on all machines"
    )]
    Version { agent: String, theirs: u32, program: String },
    #[error("agent {agent} refuses: {reason}")]
    Refused { agent: String, reason: String },
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

/// One agent.
pub struct Link {
    /// As it was named by the user.
    pub name: String,
    pub program: String,
    pub machine: Machine,
    /// Why it is of no use any more.
    pub lost: Option<String>,
    /// Of its clock that counts from its start, against the coordinator's that counts from [`Agents::epoch`].
    pub monotonic: Option<Offset>,
    /// Of the time of day.
    pub wall: Option<Offset>,
    to: mpsc::UnboundedSender<ToAgent>,
    reader: JoinHandle<()>,
}

/// What comes from an agent.
#[derive(Debug)]
pub enum Happening {
    /// With the time at which it was read, and that of day.
    Message(Box<FromAgent>, Instant, SystemTime),
    Lost(String),
}

/// All agents of a run. Dropping them ends the connections, and with them what agents still do.
pub struct Agents {
    pub links: Vec<Link>,
    events: mpsc::UnboundedReceiver<(usize, Happening)>,
    /// From when the coordinator's clock counts.
    pub epoch: Instant,
}

impl Drop for Link {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

impl Link {
    /// An agent that is lost is told nothing.
    pub fn tell(&self, message: ToAgent) {
        let _ = self.to.send(message);
    }
}

impl Agents {
    /// Connects to all of `addresses`, and compares clocks.
    ///
    /// Errors: [`AgentError`] for the first that cannot be used.
    pub async fn connect(addresses: &[String], program: &str, token: Option<&str>) -> Result<Agents, AgentError> {
        let (sender, events) = mpsc::unbounded_channel();
        let mut links = Vec::new();
        for (index, address) in addresses.iter().enumerate() {
            let (stream, greeting, machine) = greet(address, program, token).await?;
            let (from, to) = stream.into_split();
            let (outbox, outgoing) = mpsc::unbounded_channel();
            tokio::spawn(write(to, outgoing));
            links.push(Link {
                name: address.clone(),
                program: greeting.program,
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

    /// How many carry load.
    pub fn carriers(&self) -> usize {
        self.links.iter().filter(|link| !link.machine.watch_only).count()
    }

    /// What comes next; ends only when all are lost. May be given up and asked for again.
    pub async fn next(&mut self) -> Option<(usize, Happening)> {
        let (index, happening) = self.events.recv().await?;
        if let Happening::Lost(reason) = &happening {
            self.links[index].lost.get_or_insert_with(|| reason.clone());
        }
        Some((index, happening))
    }

    /// Gives up an agent.
    pub fn lose(&mut self, index: usize, reason: String) {
        let link = &mut self.links[index];
        link.lost.get_or_insert(reason);
        link.reader.abort();
        // The writer ends, and with it the connection.
        link.to = mpsc::unbounded_channel().0;
    }

    /// Compares the clocks of all. What else comes meanwhile belongs to nothing.
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

    /// Waits for the answer to ping `number` of agent `wanted`: its clocks' times, and ours when it came.
    async fn pong(&mut self, wanted: usize, number: u64) -> Result<((u64, u64), Instant, SystemTime), AgentError> {
        loop {
            if let Some((index, link)) = self.links.iter().enumerate().find(|(_, link)| link.lost.is_some()) {
                debug_assert!(index < self.links.len());
                let reason = link.lost.clone().unwrap_or_default();
                return Err(AgentError::Lost { agent: link.name.clone(), reason });
            }
            // Silence makes an agent lost, so this ends.
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

async fn greet(
    address: &str,
    program: &str,
    token: Option<&str>,
) -> Result<(TcpStream, Greeting, Machine), AgentError> {
    let agent = || address.to_owned();
    let unreachable = |reason: String| AgentError::Unreachable { agent: agent(), reason };
    let no_agent = |reason: String| AgentError::NoAgent { agent: agent(), reason };
    let in_time = |what: &str| format!("no {what} within {} s", PATIENCE.as_secs());
    let stream = tokio::time::timeout(PATIENCE, TcpStream::connect(address)).await;
    let stream = stream.map_err(|_| unreachable(in_time("connection")))?;
    let mut stream = stream.map_err(|e| unreachable(e.to_string()))?;
    let _ = stream.set_nodelay(true);
    stdx::notice_dead_peers(&stream);
    let hello = Hello::new(program, token.map(str::to_owned));
    frames::write(&mut stream, &hello).await.map_err(|e| no_agent(e.to_string()))?;
    let answer = tokio::time::timeout(PATIENCE, frames::read(&mut stream, GREETING_BYTES_MAX)).await;
    let answer = answer.map_err(|_| no_agent(in_time("answer")))?.map_err(|e| no_agent(e.to_string()))?;
    let greeting: Greeting = frames::decode(&answer).map_err(|e| no_agent(e.to_string()))?;
    if greeting.format != FORMAT {
        return Err(no_agent(format!("it says format {:?}", greeting.format)));
    }
    if greeting.version != VERSION {
        return Err(AgentError::Version { agent: agent(), theirs: greeting.version, program: greeting.program });
    }
    if let Some(reason) = greeting.refused {
        return Err(AgentError::Refused { agent: agent(), reason });
    }
    let machine = greeting.machine.clone().ok_or_else(|| no_agent("it does not say where it runs".into()))?;
    Ok((stream, greeting, machine))
}

async fn write(mut to: OwnedWriteHalf, mut outgoing: mpsc::UnboundedReceiver<ToAgent>) {
    loop {
        let message = tokio::select! {
            message = outgoing.recv() => message,
            () = tokio::time::sleep(PING_EVERY) => Some(ToAgent::Ping { number: 0 }),
        };
        let Some(message) = message else { return };
        if frames::write(&mut to, &message).await.is_err() {
            // The reading side says so.
            return;
        }
    }
}

async fn read(index: usize, mut from: OwnedReadHalf, events: mpsc::UnboundedSender<(usize, Happening)>) {
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

/// The next message. Errors: why there will be none.
async fn hear(from: &mut OwnedReadHalf) -> Result<FromAgent, String> {
    let frame = frames::read(from, MESSAGE_BYTES_MAX);
    tokio::pin!(frame);
    let mut silent = 0;
    loop {
        tokio::select! {
            biased;
            bytes = &mut frame => {
                return bytes.and_then(|bytes| frames::decode(&bytes)).map_err(|e: FrameError| e.to_string());
            }
            // Counted one by one: a coordinator that stood still itself does not blame others.
            () = tokio::time::sleep(SILENCE) => {
                silent += 1;
                if silent > SILENT_MAX {
                    return Err(format!("it said nothing for {} s", (SILENCE * SILENT_MAX).as_secs()));
                }
            }
        }
    }
}
