//! A cluster in memory, on which images and other users of objects are tested.
//!
//! The client library runs as it is, from [`crate::Pool`] down to the objecter; its sessions end here instead of in a
//! messenger. Objects and their snapshots are kept in memory; class methods are those of `cls`. Time is tokio's paused
//! clock, which advances only when every task waits. With the runtime's one thread a run is a function of its seed.
//!
//! * [`Memory`]: start here. It makes clients, kills them, and breaks their sessions.
//! * [`Fault`]: the effect of a test on single operations, chosen by a [`Rule`]: refused, lost before or after
//!   execution, executed late, or held until the test has done something else.
//!
//! Absent: placement (one OSD has everything), full pools, backoffs, damaged answers; real time and real connections,
//! which the whole-cluster tests have.

mod object;
mod world;

use crate::cluster::Cluster;
use crate::driver::{Driver, Shared, Transport};
use crate::objecter::{Objecter, Resend, Sessions, Settings};
use crate::pool::Pool;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::sync::Notify;
use types::{EntityName, Epoch, Errno};
use wire::messages::OsdOp;
use wire::msgr::{Output, Policy, SessionId};
use wire::{EntityAddrVec, Envelope, Release};
use world::World;

/// Treatment of an operation when it reaches the OSD.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fault {
    None,
    /// The operation is answered with an error, and not carried out.
    Refuse(Errno),
    /// The operation does not reach the OSD.
    LoseRequest,
    /// The operation is carried out, and its answer is lost.
    LoseReply,
    /// The operation is carried out after this time.
    Late(Duration),
    /// The operation waits for [`Memory::release`], and so do all later ones of the same client on the same object.
    Hold,
    /// The operation waits for [`Memory::release`] while later ones pass it, like a write that a full pool holds back.
    HoldBack,
}

/// An operation that has reached the OSD.
pub(crate) struct Seen<'a> {
    pub client: u64,
    pub op: &'a OsdOp,
}

impl Seen<'_> {
    /// True if the operation calls this class and method, or a method whose name begins so.
    pub fn calls(&self, method: &str) -> bool {
        self.op.ops.iter().any(|op| op.indata.to_vec().windows(method.len()).any(|part| part == method.as_bytes()))
    }
}

/// Chooses the fault of each operation, once, when the operation first arrives.
pub(crate) type Rule = Box<dyn FnMut(&Seen<'_>) -> Fault + Send>;

/// The cluster. All clones are one cluster.
#[derive(Clone)]
pub(crate) struct Memory {
    world: Arc<Mutex<World>>,
    /// Signals that a message is on its way.
    news: Arc<Notify>,
    /// Signals that something has reached the OSD.
    progress: Arc<Notify>,
}

/// The sessions of one client with the cluster.
struct MemorySessions {
    memory: Memory,
    gid: u64,
}

impl Memory {
    /// Starts a cluster with these pools, whose required minimum client release is `oldest_client`. Needs a runtime of
    /// one thread whose clock is paused.
    pub fn start(seed: u64, pools: &[&str], oldest_client: Release) -> Memory {
        let world = Arc::new(Mutex::new(World::new(seed, pools, oldest_client)));
        let memory = Memory { world, news: Arc::new(Notify::new()), progress: Arc::new(Notify::new()) };
        tokio::spawn(memory.clone().run());
        memory
    }

    async fn run(self) {
        loop {
            let next = self.lock().next_at();
            match next {
                None => self.news.notified().await,
                Some(at) => tokio::select! {
                    biased;
                    () = tokio::time::sleep_until(at) => {}
                    () = self.news.notified() => continue,
                },
            }
            while let Some(woken) = self.step() {
                woken.into_iter().for_each(|driver: Arc<Shared>| driver.deliver());
                self.progress.notify_waiters();
                // Waiting tasks go on before the next event happens.
                tokio::task::yield_now().await;
            }
        }
    }

    /// Carries out the next event that is due. Returns the drivers that have something to receive.
    fn step(&self) -> Option<Vec<Arc<Shared>>> {
        let mut world = self.lock();
        world.step().then(|| world.take_woken())
    }

    pub fn lock(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Connects a new client. Returns its global id and its connection.
    pub async fn client(&self, op_timeout: Option<Duration>) -> (u64, Cluster) {
        let gid = self.lock().add_client();
        let settings = Settings {
            mons: vec![EntityAddrVec::msgr2("10.0.0.1:3300".parse().expect("an address"), 0)],
            hostname: "h".into(),
            op_timeout,
            mon_op_timeout: None,
            seed: gid,
            resend: Resend::default(),
            near: BTreeSet::new(),
        };
        let link = MemorySessions { memory: self.clone(), gid };
        let driver = Arc::new(Driver::start(Box::new(link), Objecter::new(settings)));
        self.lock().clients.get_mut(&gid).expect("just made").driver = Arc::downgrade(&driver.shared);
        driver.shared.deliver();
        driver.shared.wait_for_map(Epoch(1)).await.expect("a map");
        (gid, Cluster::of(driver))
    }

    pub async fn pool(&self, name: &str) -> (u64, Pool) {
        let (gid, cluster) = self.client(None).await;
        (gid, cluster.pool(name).await.expect("a pool"))
    }

    pub fn set_rule(&self, rule: impl FnMut(&Seen<'_>) -> Fault + Send + 'static) {
        self.lock().rule = Some(Box::new(rule));
    }

    pub fn clear_rule(&self) {
        self.lock().rule = None;
    }

    /// Kills the client; its watches are dropped after their timeout.
    pub fn kill(&self, gid: u64) {
        self.lock().kill(gid);
        self.news.notify_one();
    }

    /// Breaks the client's session with the OSD.
    pub fn reset(&self, gid: u64) {
        let mut world = self.lock();
        world.reset(gid);
        let woken = world.take_woken();
        drop(world);
        woken.into_iter().for_each(|driver| driver.deliver());
    }

    /// Waits until an operation is held.
    pub async fn until_held(&self) {
        loop {
            let progress = self.progress.notified();
            tokio::pin!(progress);
            progress.as_mut().enable();
            if self.lock().held() > 0 {
                return;
            }
            progress.await;
        }
    }

    /// Lets all held operations go on, and removes the rule.
    pub fn release(&self) {
        let mut world = self.lock();
        world.rule = None;
        world.release();
        drop(world);
        self.news.notify_one();
    }
}

impl Sessions for MemorySessions {
    fn connect(&mut self, peer: EntityName, _: &EntityAddrVec, _: Policy, _: Duration) -> SessionId {
        self.memory.lock().connect(self.gid, peer)
    }

    fn send(&mut self, session: SessionId, envelope: Envelope) {
        self.memory.lock().send(self.gid, session, envelope);
        self.memory.news.notify_one();
    }

    fn close(&mut self, session: SessionId) {
        self.memory.lock().close(self.gid, session);
    }
}

impl Transport for MemorySessions {
    fn poll(&mut self) -> Option<Output> {
        self.memory.lock().clients.get_mut(&self.gid).expect("a client").outputs.pop_front()
    }

    fn global_id(&self) -> u64 {
        self.gid
    }
}

/// Runs a test on one thread with a paused clock, so that its every step follows from the seed.
pub(crate) fn simulate<F: Future>(test: F) -> F::Output {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_time().start_paused(true).build().expect("a runtime").block_on(test)
}
