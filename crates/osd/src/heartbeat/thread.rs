//! Runs heartbeats on a thread of their own.

use super::node::Beside;
use super::{Board, HeartbeatAddrs, HeartbeatNode};
use crate::connection_shares::ConnectionShares;
use crate::{OsdConfig, Stop};
use reactor::{Pulse, Reactor, Waker};
use std::io;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

/// The thread. It ends when this is dropped.
pub(crate) struct HeartbeatThread {
    board: Arc<Board>,
    waker: Waker,
    addrs: HeartbeatAddrs,
    thread: Option<JoinHandle<()>>,
}

impl HeartbeatThread {
    /// Begins to answer for the OSD whose loops have these pulses.
    ///
    /// Errors: an address that cannot be bound; a thread that cannot be started.
    pub fn start(
        config: &OsdConfig,
        pulses: Vec<Pulse>,
        stop: Stop,
        connections: ConnectionShares,
    ) -> io::Result<HeartbeatThread> {
        let board = Arc::new(Board::default());
        let waker = Waker::new()?;
        let (begun, begin) = mpsc::channel();
        let run = {
            let (config, board, waker) = (config.clone(), board.clone(), waker.clone());
            move || {
                let made = begin_node(&config, board, waker, Beside { pulses, stop }, connections);
                let (mut reactor, mut node) = match made {
                    Ok(made) => made,
                    Err(e) => return drop(begun.send(Err(e))),
                };
                // The receiver may be gone only together with the process.
                let _ = begun.send(Ok(node.addrs().clone()));
                if let Err(e) = reactor.run(&mut node) {
                    // Without heartbeats the others would have this OSD marked down over and over.
                    tracing::error!(osd = %config.id, "the heartbeats' loop failed: {e}; ends the process");
                    std::process::abort();
                }
            }
        };
        let thread = std::thread::Builder::new().name("heartbeat".to_owned()).spawn(run)?;
        let addrs = begin.recv().map_err(|_| io::Error::other("the heartbeats' thread ended at once"))??;
        Ok(HeartbeatThread { board, waker, addrs, thread: Some(thread) })
    }

    pub fn board(&self) -> &Arc<Board> {
        &self.board
    }

    pub fn addrs(&self) -> &HeartbeatAddrs {
        &self.addrs
    }
}

impl Drop for HeartbeatThread {
    fn drop(&mut self) {
        self.board.end();
        self.waker.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn begin_node(
    config: &OsdConfig,
    board: Arc<Board>,
    waker: Waker,
    beside: Beside,
    connections: ConnectionShares,
) -> io::Result<(Reactor, HeartbeatNode)> {
    let mut reactor = Reactor::new(reactor::Config {
        waker: Some(waker),
        connections_max: connections.heartbeats,
        // Messages are short, and few are under way at a time.
        queue_entries: 32,
        receive_buffer_bytes: 2 << 10,
        receive_buffers: 16,
        pool_bytes_max: 0,
        disk_threads: 1,
        ..reactor::Config::default()
    })?;
    let mut node = HeartbeatNode::new(reactor.io(), config, board)?;
    node.limit_connections(reactor.io(), connections.heartbeats_accepted);
    node.stand_beside(beside);
    Ok((reactor, node))
}
