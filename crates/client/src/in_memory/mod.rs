//! A cluster in memory, for what is built on objects: images are tested on it.
//!
//! The client library runs as it is, from [`crate::Pool`] down to the objecter; its sessions end here instead of in a messenger.
//! Objects and their snapshots are kept in memory, classes' methods are those of `cls`. Time is tokio's, which stands still
//! until everybody waits; with the runtime's one thread a run is a function of its seed.
//!
//! * [`Memory`]: start here. It makes clients, kills them, and breaks their sessions.
//! * [`Fault`]: what a test does to single operations, chosen by a [`Rule`]: refused, lost before or after they were carried
//!   out, carried out late, or held until the test has done something else.
//!
//! Absent: placement (one OSD has everything), full pools, backoffs, damaged answers; real time and real connections, for which
//! there are whole clusters.

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

/// What happens to an operation when it reaches the OSD.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fault {
    None,
    /// It is answered with an error, and not carried out.
    Refuse(Errno),
    /// It never came.
    LoseRequest,
    /// It is carried out, and nobody is told.
    LoseReply,
    /// It is carried out after this time.
    Late(Duration),
    /// It waits, and all of the same client on the same object behind it, for [`Memory::release`].
    Hold,
    /// The same, but others go past it, as past a write that a full pool holds back.
    HoldBack,
}

/// An operation that has reached the OSD.
pub(crate) struct Seen<'a> {
    pub client: u64,
    pub op: &'a OsdOp,
}

impl Seen<'_> {
    /// Whether it calls this class and method, or methods whose names begin so.
    pub fn calls(&self, method: &str) -> bool {
        self.op.ops.iter().any(|op| op.indata.to_vec().windows(method.len()).any(|part| part == method.as_bytes()))
    }
}

/// Decides on each operation once, when it comes first.
pub(crate) type Rule = Box<dyn FnMut(&Seen<'_>) -> Fault + Send>;

/// The cluster. Clones are the same.
#[derive(Clone)]
pub(crate) struct Memory {
    world: Arc<Mutex<World>>,
    /// Something is on its way.
    news: Arc<Notify>,
    /// Something has reached the OSD.
    progress: Arc<Notify>,
}

/// A client's sessions with it.
struct Link {
    memory: Memory,
    gid: u64,
}

impl Memory {
    /// With these pools, whose oldest clients are of this release. On a runtime of one thread whose clock is paused.
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
                // Who was waiting goes on before the next thing happens.
                tokio::task::yield_now().await;
            }
        }
    }

    /// Does the next thing that is due. Gives the drivers that have something to hear.
    fn step(&self) -> Option<Vec<Arc<Shared>>> {
        let mut world = self.lock();
        world.step().then(|| world.take_woken())
    }

    pub fn lock(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// A new client. Give its number with the cluster.
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
        let link = Link { memory: self.clone(), gid };
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

    /// The client dies; its watches are dropped after their time.
    pub fn kill(&self, gid: u64) {
        self.lock().kill(gid);
        self.news.notify_one();
    }

    /// The client's session with the OSD breaks.
    pub fn reset(&self, gid: u64) {
        let mut world = self.lock();
        world.reset(gid);
        let woken = world.take_woken();
        drop(world);
        woken.into_iter().for_each(|driver| driver.deliver());
    }

    /// Waits until something is held.
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

    /// Lets everything that is held go on, and holds nothing more.
    pub fn release(&self) {
        let mut world = self.lock();
        world.rule = None;
        world.release();
        drop(world);
        self.news.notify_one();
    }
}

impl Sessions for Link {
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

impl Transport for Link {
    fn poll(&mut self) -> Option<Output> {
        self.memory.lock().clients.get_mut(&self.gid).expect("a client").outputs.pop_front()
    }

    fn global_id(&self) -> u64 {
        self.gid
    }
}

/// Runs a test whose every step follows from the seed.
pub(crate) fn simulate<F: Future>(test: F) -> F::Output {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_time().start_paused(true).build().expect("a runtime").block_on(test)
}
