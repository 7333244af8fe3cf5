//! A client that keeps a journal of acknowledged writes while daemons suffer.

use crate::background::Background;
use crate::cluster::TestCluster;
use crate::command::{python, run};
use rustix::process::Signal;
use std::path::PathBuf;
use std::time::Duration;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/python/journal.py");

/// Writes and reads until [`Journal::end`]; a stale or wrong read ends it with an error.
pub struct Journal {
    client: Background,
    pool: String,
    file: PathBuf,
}

impl Journal {
    /// Begins to write to a pool.
    #[track_caller]
    pub fn begin(cluster: &TestCluster, pool: &str) -> Journal {
        let file = cluster.scratch("journal");
        let path = file.to_str().expect("plain path");
        let client = Background::start(cluster.command(python(), &[SCRIPT, "write", pool, path]));
        client.says("writing", Duration::from_secs(60));
        Journal { client, pool: pool.to_owned(), file }
    }

    /// Writes that were acknowledged so far.
    pub fn acknowledged(&self) -> usize {
        let text = std::fs::read_to_string(&self.file).expect("the journal is there");
        text.lines().filter(|line| line.starts_with("done")).count()
    }

    /// Waits until so many more writes were acknowledged.
    #[track_caller]
    pub fn goes_on(&mut self, more: usize, limit: Duration) {
        let (from, end) = (self.acknowledged(), std::time::Instant::now() + limit);
        while self.acknowledged() < from + more {
            assert!(
                std::time::Instant::now() < end,
                "{} of {more} writes within {limit:?}",
                self.acknowledged() - from
            );
            assert!(self.client.is_running(), "the client has ended: a read was stale or wrong, or a write failed");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Ends the client in order, and compares every object with the journal.
    #[track_caller]
    pub fn end(mut self, cluster: &TestCluster) {
        self.client.signal(Signal::TERM);
        let code = self.client.exit_code(Duration::from_secs(90));
        assert_eq!(code, Some(0), "a read was stale or wrong, or a write failed");
        let path = self.file.to_str().expect("plain path");
        let out = run(cluster.command(python(), &[SCRIPT, "check", &self.pool, path]), Duration::from_secs(120)).ok();
        eprintln!("{}", out.trim());
        assert!(out.contains("acknowledged writes left them"), "{out}");
    }
}
