//! Threads that serve connections, beside the one on which the gateway talks to its cluster.
//!
//! Each has a runtime of its own: a connection stays on its thread, with all that its requests compute, so that nothing
//! moves between processors but bytes from and to the cluster. What a gateway remembers, counts and bounds is shared.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

/// Threads that serve connections. They end when this is dropped, and their work ends with them. By default there are
/// none, and the thread that accepts connections serves them.
#[derive(Default)]
pub struct Threads {
    threads: Vec<ServingThread>,
}

struct ServingThread {
    handle: Handle,
    /// Connections that it serves.
    connections: Arc<AtomicUsize>,
    /// The thread ends once this is gone.
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Counts a connection, until it is dropped.
struct CountedConnection(Arc<AtomicUsize>);

impl Drop for CountedConnection {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Threads {
    /// Starts `count` threads, called `s3-0`, `s3-1` and so on. One thread needs no other beside it: with a count of 1
    /// none is started, and the caller of [`crate::Server::run`] serves by itself.
    pub fn start(count: usize) -> io::Result<Threads> {
        let mut threads = Threads::default();
        for number in (0..count).filter(|_| count > 1) {
            threads.threads.push(ServingThread::start(number)?);
        }
        Ok(threads)
    }

    /// Number of threads that serve.
    pub fn count(&self) -> usize {
        self.threads.len().max(1)
    }

    /// Serves a connection on the thread that has the fewest. To be called by one caller at a time.
    pub(crate) fn serve(&self, connections: &mut JoinSet<()>, connection: impl Future<Output = ()> + Send + 'static) {
        let fewest = self.threads.iter().min_by_key(|thread| thread.connections.load(Ordering::Relaxed));
        let Some(thread) = fewest else {
            connections.spawn(connection);
            return;
        };
        thread.connections.fetch_add(1, Ordering::Relaxed);
        let counted = CountedConnection(thread.connections.clone());
        let counting = async move {
            let _counted = counted;
            connection.await;
        };
        connections.spawn_on(counting, &thread.handle);
    }
}

impl ServingThread {
    fn start(number: usize) -> io::Result<ServingThread> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (stop, stopped) = oneshot::channel::<()>();
        let handle = runtime.handle().clone();
        let thread = std::thread::Builder::new().name(format!("s3-{number}")).spawn(move || {
            // Nothing is ever sent: the sender goes.
            let _ = runtime.block_on(stopped);
        })?;
        Ok(ServingThread { handle, connections: Arc::default(), stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.threads.iter_mut().for_each(|thread| drop(thread.stop.take()));
        for thread in self.threads.iter_mut().filter_map(|thread| thread.thread.take()) {
            // One that panicked has told so.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::sync::Mutex;
    use std::time::Duration;
    use tokio::sync::{mpsc, watch};

    fn own_name() -> String {
        std::thread::current().name().unwrap_or_default().to_owned()
    }

    /// Connections that tell their threads, and end when they are told.
    struct Connections {
        all: JoinSet<()>,
        names: mpsc::UnboundedSender<String>,
        told: mpsc::UnboundedReceiver<String>,
    }

    impl Connections {
        fn new() -> Connections {
            let (names, told) = mpsc::unbounded_channel();
            Connections { all: JoinSet::new(), names, told }
        }

        async fn add(&mut self, threads: &Threads, mut end: watch::Receiver<bool>) -> String {
            let names = self.names.clone();
            threads.serve(&mut self.all, async move {
                names.send(own_name()).expect("it is waited for");
                let _ = end.wait_for(|end| *end).await;
            });
            self.told.recv().await.expect("it runs")
        }
    }

    #[tokio::test]
    async fn connections_go_where_the_fewest_are() {
        let threads = Threads::start(3).expect("threads start");
        assert_eq!(threads.count(), 3);
        let mut connections = Connections::new();
        let ends: Vec<_> = (0..3).map(|_| watch::channel(false)).collect();
        let mut served = BTreeMap::<String, Vec<usize>>::new();
        for at in 0..9 {
            let name = connections.add(&threads, ends[at / 3].1.clone()).await;
            served.entry(name).or_default().push(at / 3);
        }
        let even = ["s3-0", "s3-1", "s3-2"].map(|name| (name.to_owned(), vec![0, 1, 2]));
        assert_eq!(served, BTreeMap::from(even));
        // A third of each thread's connections ends. New ones fill the gaps evenly.
        ends[0].0.send(true).expect("they wait");
        for _ in 0..3 {
            connections.all.join_next().await.expect("it ends").expect("without a panic");
        }
        let mut names = Vec::new();
        for _ in 0..3 {
            names.push(connections.add(&threads, ends[1].1.clone()).await);
        }
        names.sort();
        assert_eq!(names, ["s3-0", "s3-1", "s3-2"]);
    }

    #[tokio::test]
    async fn one_thread_is_the_caller_s() {
        let threads = Threads::start(1).expect("nothing is started");
        assert_eq!(threads.count(), 1);
        let (_end, ended) = watch::channel(true);
        assert_eq!(Connections::new().add(&threads, ended).await, own_name());
    }

    /// A connection that keeps its thread busy holds up none on another thread.
    #[tokio::test]
    async fn a_busy_thread_holds_up_no_other() {
        let threads = Threads::start(2).expect("threads start");
        let mut connections = Connections::new();
        let (release, busy) = std::sync::mpsc::channel::<()>();
        threads.serve(&mut connections.all, async move {
            let _ = busy.recv_timeout(Duration::from_secs(60));
        });
        let (_end, ended) = watch::channel(true);
        assert_eq!(connections.add(&threads, ended).await, "s3-1");
        release.send(()).expect("the first one is still at it");
    }

    #[tokio::test]
    async fn what_is_left_ends_with_the_threads() {
        /// Notes that it was dropped.
        struct Noted(Arc<Mutex<u32>>);
        impl Drop for Noted {
            fn drop(&mut self) {
                *self.0.lock().expect("nobody panicked") += 1;
            }
        }
        let threads = Threads::start(2).expect("threads start");
        let (dropped, mut connections) = (Arc::new(Mutex::new(0)), JoinSet::new());
        for _ in 0..4 {
            let noted = Noted(dropped.clone());
            threads.serve(&mut connections, async move {
                let _noted = noted;
                std::future::pending::<()>().await;
            });
        }
        drop(threads);
        assert_eq!(*dropped.lock().expect("nobody panicked"), 4);
        while let Some(ended) = connections.join_next().await {
            assert!(ended.expect_err("it never ends by itself").is_cancelled());
        }
    }
}
