//! Runs tasks of gateways in one thread, for tests.

use crate::memory::{Memory, Task};
use std::pin::pin;
use std::task::{Context, Poll, Waker};

/// Runs a future that waits for nothing from outside.
pub(crate) fn run<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
    }
}

/// Tasks of gateways, each of which is a client of one cluster in memory.
#[derive(Default)]
pub(crate) struct Executor {
    gateways: Vec<(Memory, Vec<Task>)>,
}

impl Executor {
    pub fn add(&mut self, client: &Memory, task: Task) {
        match self.gateways.iter_mut().find(|(other, _)| std::sync::Arc::ptr_eq(&other.spawned, &client.spawned)) {
            Some((_, tasks)) => tasks.push(task),
            None => self.gateways.push((client.clone(), vec![task])),
        }
    }

    /// Ends all tasks of a client at once, wherever they are. What it has sent may still arrive.
    pub fn kill(&mut self, client: &Memory) {
        self.gateways.retain(|(other, _)| !std::sync::Arc::ptr_eq(&other.spawned, &client.spawned));
    }

    /// Lets every task go on until it waits for the cluster.
    pub fn turn(&mut self) {
        let mut context = Context::from_waker(Waker::noop());
        for (client, tasks) in &mut self.gateways {
            tasks.retain_mut(|task| task.as_mut().poll(&mut context).is_pending());
            let spawned = std::mem::take(&mut *client.spawned.lock().expect("no task panicked"));
            tasks.extend(spawned);
        }
    }

    /// Number of tasks that are not done.
    pub fn tasks(&self) -> usize {
        self.gateways.iter().map(|(_, tasks)| tasks.len()).sum()
    }

    /// Runs `future` as the client's, and all tasks beside it, until it is done.
    pub fn until<F: Future>(&mut self, client: &Memory, future: F) -> F::Output {
        let mut future = pin!(future);
        let mut context = Context::from_waker(Waker::noop());
        self.add(client, Box::pin(async {}));
        loop {
            if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
                return output;
            }
            self.turn();
            client.lock().deliver();
        }
    }
}
