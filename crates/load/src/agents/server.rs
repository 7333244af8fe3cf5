//! An agent: waits for a coordinator and does its work, for one coordinator at a time. Once a coordinator is gone, all
//! its work is ended.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use auth::secure::Side;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinHandle, LocalSet};
use tokio::time::Instant;

use crate::environment;

use super::frames::{self, FrameError, GREETING_BYTES_MAX, MESSAGE_BYTES_MAX, Reader, Writer};
use super::job::Job;
use super::options::AgentOptions;
use super::protocol::{FORMAT, FromAgent, Greeting, Hello, Machine, Proof, ToAgent, VERSION};
use super::sealing::{Nonce, TokenProofs};

/// Time limit for the greeting of a new connection.
const HELLO_WITHIN: Duration = Duration::from_secs(5);
/// Interval of signs of life.
const LIVE_EVERY: Duration = Duration::from_millis(500);
/// A coordinator that is silent for so many intervals of [`LIVE_EVERY`] is gone: it pings every second.
const SILENT_MAX: u32 = 60;
/// Shortest token: shorter ones are guessed too easily.
const TOKEN_BYTES_MIN: usize = 16;

/// The reason why an agent cannot serve.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error(
        "{0} can be reached from other machines, and whoever reaches an agent can load clusters: name a file with a \
         token that coordinators must know too (--token-file), or listen on 127.0.0.1"
    )]
    Open(SocketAddr),
    #[error("the token is shorter than {TOKEN_BYTES_MIN} bytes")]
    Token,
    #[error("cannot listen on {listen}")]
    Listen { listen: SocketAddr, source: std::io::Error },
}

/// Serves until `stop` becomes true. `told` gets a line for each event; the first is the address that the agent listens
/// on.
///
/// Errors: [`ServeError`] if the agent cannot begin.
pub async fn serve(
    options: AgentOptions,
    told: impl Fn(String) + 'static,
    mut stop: watch::Receiver<bool>,
) -> Result<(), ServeError> {
    if options.token.is_none() && !options.listen.ip().is_loopback() {
        return Err(ServeError::Open(options.listen));
    }
    if options.token.as_ref().is_some_and(|token| token.len() < TOKEN_BYTES_MIN) {
        return Err(ServeError::Token);
    }
    let failed = |source| ServeError::Listen { listen: options.listen, source };
    let listener = TcpListener::bind(options.listen).await.map_err(failed)?;
    told(format!("listens on {}", listener.local_addr().map_err(failed)?));
    let agent = Rc::new(Agent {
        machine: machine(options.watch_only),
        epoch: Instant::now(),
        busy: RefCell::new(None),
        told: Box::new(told),
        stop: stop.clone(),
        options,
    });
    let local = LocalSet::new();
    let mut sessions = tokio::task::JoinSet::new();
    local
        .run_until(async {
            loop {
                tokio::select! {
                    accepted = listener.accept() => match accepted {
                        Ok((stream, peer)) => drop(sessions.spawn_local(agent.clone().connection(stream, peer))),
                        // Accepting may fail for lack of descriptors and the like, which may pass.
                        Err(error) => {
                            (agent.told)(format!("cannot accept: {error}"));
                            tokio::time::sleep(LIVE_EVERY).await;
                        }
                    },
                    Some(_) = sessions.join_next() => {}
                    _ = stop.wait_for(|asked| *asked) => break,
                }
            }
            // The sessions see `stop` as well, and end.
            while sessions.join_next().await.is_some() {}
        })
        .await;
    Ok(())
}

/// Description of this machine.
fn machine(watch_only: bool) -> Machine {
    let facts = environment::machine();
    let id = environment::machine_id();
    let host = facts.get("machine.host").cloned().unwrap_or_default();
    Machine { id, host, processors: environment::processors(), watch_only, facts }
}

struct Agent {
    options: AgentOptions,
    machine: Machine,
    /// Start of the agent's clock.
    epoch: Instant,
    /// Address of the coordinator that is being served.
    busy: RefCell<Option<SocketAddr>>,
    told: Box<dyn Fn(String)>,
    stop: watch::Receiver<bool>,
}

/// An event of the reading half of a connection.
enum Incoming {
    Message(ToAgent),
    End(FrameError),
}

/// The reason why a peer is not served.
enum Stranger {
    /// It does not speak the protocol.
    Broken(FrameError),
    /// It hears this sentence.
    Refused(String),
}

impl From<FrameError> for Stranger {
    fn from(error: FrameError) -> Stranger {
        Stranger::Broken(error)
    }
}

impl Agent {
    async fn connection(self: Rc<Self>, stream: TcpStream, peer: SocketAddr) {
        let _ = stream.set_nodelay(true);
        stdx::notice_dead_peers(&stream);
        let (from, to) = stream.into_split();
        let (mut from, mut to) = (Reader::new(from), Writer::new(to));
        let admitted = tokio::time::timeout(HELLO_WITHIN, self.admit(&mut from, &mut to)).await;
        let refused = match admitted {
            Err(_) => return (self.told)(format!("{peer} did not say who it is")),
            Ok(Err(Stranger::Broken(error))) => return (self.told)(format!("{peer} is no coordinator: {error}")),
            Ok(Err(Stranger::Refused(reason))) => Some(reason),
            Ok(Ok(())) => self.busy.borrow().map(|peer| format!("it is busy: it works for the coordinator at {peer}")),
        };
        let program = &self.options.program;
        if let Some(reason) = refused {
            (self.told)(format!("{peer} was turned away: {reason}"));
            let _ = to.write(&Greeting::refusal(program, reason)).await;
            return;
        }
        *self.busy.borrow_mut() = Some(peer);
        let why = match to.write(&Greeting::welcome(program, self.machine.clone())).await {
            Ok(()) => {
                (self.told)(format!("serves {peer}"));
                self.session(from, to).await
            }
            Err(error) => error.to_string(),
        };
        *self.busy.borrow_mut() = None;
        (self.told)(format!("no longer serves {peer}: {why}"));
    }

    /// Hears who is there. Where this agent has a token both prove that they know it, and the connection is encrypted
    /// from then on.
    async fn admit(&self, from: &mut Reader<OwnedReadHalf>, to: &mut Writer<OwnedWriteHalf>) -> Result<(), Stranger> {
        let hello = self.spoken(&from.read(GREETING_BYTES_MAX).await?).map_err(Stranger::Refused)?;
        let Some(token) = &self.options.token else { return Ok(()) };
        let refused = |reason: &str| Stranger::Refused(reason.to_owned());
        let theirs = hello.nonce.ok_or_else(|| refused("a token is asked for: name the file with --token-file"))?;
        let theirs = Nonce::from_text(&theirs).ok_or_else(|| refused("its nonce is none"))?;
        let own = Nonce::draw();
        to.write(&Greeting::challenge(&self.options.program, own.to_text())).await?;
        let Proof { proof } = frames::decode(&from.read(GREETING_BYTES_MAX).await?)?;
        let proofs = TokenProofs::new(token, &theirs, &own);
        if !proofs.is_coordinators(&proof) {
            return Err(refused("the token is not the one that this agent has"));
        }
        to.write(&Proof { proof: proofs.agents() }).await?;
        let (sealer, opener) = proofs.directions(Side::Accepting);
        from.open_with(opener);
        to.seal_with(sealer);
        Ok(())
    }

    /// Reads a hello of this protocol. Errors: the reason why it is none.
    fn spoken(&self, hello: &[u8]) -> Result<Hello, String> {
        let hello: Hello = frames::decode(hello).map_err(|error| error.to_string())?;
        if hello.format != FORMAT {
            return Err(format!("format {:?} is not {FORMAT:?}", hello.format));
        }
        if hello.version != VERSION {
            let program = &self.options.program;
            return Err(format!(
                "protocol version {} of {} is not version {VERSION}, which this agent ({program}) speaks; run the same \
                 release on all machines",
                hello.version, hello.program
            ));
        }
        Ok(hello)
    }

    /// Carries out a coordinator's commands. Returns the reason why the session ended.
    async fn session(&self, from: Reader<OwnedReadHalf>, mut to: Writer<OwnedWriteHalf>) -> String {
        let (outbox, mut outgoing) = mpsc::unbounded_channel::<FromAgent>();
        let (inbox, mut incoming) = mpsc::channel(16);
        let reader = tokio::task::spawn_local(read(from, inbox, outbox.clone(), self.epoch));
        let writer = tokio::task::spawn_local(async move {
            while let Some(message) = outgoing.recv().await {
                if to.write(&message).await.is_err() {
                    return;
                }
            }
        });
        let mut job: Option<Job> = None;
        let mut ending: Option<JoinHandle<()>> = None;
        let mut live_at = Instant::now() + LIVE_EVERY;
        let mut silent = 0;
        let mut stop = self.stop.clone();
        let why = loop {
            let boundary = job.as_ref().and_then(Job::next_boundary);
            tokio::select! {
                biased;
                () = tokio::time::sleep_until(boundary.unwrap_or(live_at)), if boundary.is_some() => {
                    job.as_mut().expect("it has a boundary").boundary().await;
                }
                next = incoming.recv() => {
                    silent = 0;
                    match next {
                        Some(Incoming::Message(message)) => {
                            if let Err(reason) = self.message(message, &mut job, &mut ending, &outbox).await {
                                break reason;
                            }
                        }
                        Some(Incoming::End(error)) => break error.to_string(),
                        None => break "the connection was closed".into(),
                    }
                }
                report = report(&mut job) => job.as_mut().expect("it reported").reported(report),
                () = tokio::time::sleep_until(live_at) => {
                    // The next interval begins now, not when this one was due: a machine that was suspended does not
                    // count as silent.
                    live_at = Instant::now() + LIVE_EVERY;
                    silent += 1;
                    if silent > SILENT_MAX {
                        break "the coordinator says nothing any more".into();
                    }
                    let (prepared_bytes, totals) =
                        job.as_ref().map(|job| (job.prepared_bytes(), job.totals())).unwrap_or_default();
                    let _ = outbox.send(FromAgent::Live { prepared_bytes, totals });
                    if let Some(job) = &mut job {
                        job.glance();
                    }
                }
                _ = stop.wait_for(|asked| *asked) => break "the agent was stopped".into(),
            }
        };
        reader.abort();
        writer.abort();
        if let Some(job) = job {
            job.end().await;
        }
        if let Some(ending) = ending {
            let _ = ending.await;
        }
        why
    }

    /// Handles one message. Errors: the coordinator does not follow the protocol.
    async fn message(
        &self,
        message: ToAgent,
        job: &mut Option<Job>,
        ending: &mut Option<JoinHandle<()>>,
        outbox: &mpsc::UnboundedSender<FromAgent>,
    ) -> Result<(), String> {
        let tell = |message| drop(outbox.send(message));
        match (message, job.as_mut()) {
            (ToAgent::Ping { .. }, _) => {}
            (ToAgent::Begin(_), Some(_)) => return Err("an iteration began before the last one ended".into()),
            (ToAgent::Begin(mut begin), None) => {
                if let Some(ending) = ending.take() {
                    let _ = ending.await;
                }
                if self.options.watch_only {
                    begin.part = None;
                }
                match Job::begin(*begin, &self.options, outbox.clone()) {
                    Ok(begun) => *job = Some(begun),
                    Err(reason) => tell(FromAgent::Failed { reason }),
                }
            }
            (ToAgent::End, _) => match job.take() {
                None => tell(FromAgent::Ended),
                Some(job) => {
                    let outbox = outbox.clone();
                    *ending = Some(tokio::task::spawn_local(async move {
                        job.end().await;
                        let _ = outbox.send(FromAgent::Ended);
                    }));
                }
            },
            // These messages may follow a failure to begin.
            (ToAgent::Gather { .. }, None) => tell(FromAgent::Gathered),
            (_, None) => {}
            (ToAgent::Prefill, Some(job)) => job.prefill(),
            (ToAgent::Prepare, Some(job)) => job.prepare(),
            (ToAgent::Load { at_ns }, Some(job)) => job.load(self.epoch + Duration::from_nanos(at_ns)),
            (ToAgent::Stop, Some(job)) => job.stop().await,
            (ToAgent::Gather { rounds }, Some(job)) => job.gather(rounds).await,
            (ToAgent::Clean, Some(job)) => job.clean(),
        }
        Ok(())
    }
}

async fn report(job: &mut Option<Job>) -> Option<crate::threads::Report> {
    match job {
        Some(job) => job.report().await,
        None => std::future::pending().await,
    }
}

/// Reads until the connection ends. Pings are answered here, for the shortest delay.
async fn read(
    mut from: Reader<OwnedReadHalf>,
    inbox: mpsc::Sender<Incoming>,
    outbox: mpsc::UnboundedSender<FromAgent>,
    epoch: Instant,
) {
    let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    loop {
        let next = match from.read(MESSAGE_BYTES_MAX).await {
            Ok(bytes) => frames::decode(&bytes).map_or_else(Incoming::End, Incoming::Message),
            Err(error) => Incoming::End(error),
        };
        if let Incoming::Message(ToAgent::Ping { number }) = next {
            let wall_ns = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, nanoseconds);
            let _ = outbox.send(FromAgent::Pong { number, monotonic_ns: nanoseconds(epoch.elapsed()), wall_ns });
        }
        let ended = matches!(next, Incoming::End(_));
        if inbox.send(next).await.is_err() || ended {
            return;
        }
    }
}
