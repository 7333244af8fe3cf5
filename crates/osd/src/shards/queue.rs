//! A bounded queue from one loop to another.
//!
//! Everything that gathers in a turn goes as one batch, with at most one wake-up. If the other side is so far behind
//! that the queue is full, the batch stays with the sender and grows. The sender then soon takes in nothing more that
//! would add to it.

use reactor::Waker;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

/// The most batches in a queue.
const BATCHES_MAX: usize = 64;

/// Tells a loop to look at its queues.
#[derive(Clone, Debug)]
pub(crate) enum Bell {
    /// The loop waits in the kernel; the waker ends its wait.
    Wake(Waker),
    /// Another loop runs it in turns, and looks at this mark.
    Mark(Arc<AtomicBool>),
}

impl Bell {
    fn ring(&self) {
        match self {
            Bell::Wake(waker) => waker.wake(),
            Bell::Mark(mark) => mark.store(true, Ordering::SeqCst),
        }
    }
}

pub(crate) struct Sender<T> {
    batches: SyncSender<Vec<T>>,
    batch: Vec<T>,
    /// True if the receiver must ring when there is room.
    waits: Arc<AtomicBool>,
    receiver: Bell,
}

pub(crate) struct Inbox<T> {
    batches: Receiver<Vec<T>>,
    waits: Arc<AtomicBool>,
    sender: Bell,
}

/// Makes a queue between two loops. `sender` and `receiver`: the bells of the two sides.
pub(crate) fn queue<T>(sender: Bell, receiver: Bell) -> (Sender<T>, Inbox<T>) {
    let (give, take) = sync_channel(BATCHES_MAX);
    let waits = Arc::new(AtomicBool::new(false));
    let inbox = Inbox { batches: take, waits: waits.clone(), sender };
    (Sender { batches: give, batch: Vec::new(), waits, receiver }, inbox)
}

impl<T> Sender<T> {
    /// Adds an item to the batch that the next [`Sender::flush`] sends.
    pub fn push(&mut self, item: T) {
        self.batch.push(item);
    }

    /// Sends the batch if there is room.
    pub fn flush(&mut self) {
        if self.batch.is_empty() {
            return;
        }
        if self.try_send() || {
            // The receiver may have made room before it could see that the sender waits, so the sender tries again.
            self.waits.store(true, Ordering::SeqCst);
            self.try_send()
        } {
            self.ring();
        }
    }

    /// Returns true if the batch is gone.
    fn try_send(&mut self) -> bool {
        match self.batches.try_send(std::mem::take(&mut self.batch)) {
            Ok(()) => true,
            Err(TrySendError::Full(batch)) => {
                self.batch = batch;
                false
            }
            // The other side has ended. Its owner learns that in another way.
            Err(TrySendError::Disconnected(_)) => true,
        }
    }

    /// Tells the receiver to look at its queue.
    pub fn ring(&self) {
        self.receiver.ring();
    }

    /// True if the last flush found no room.
    pub fn is_backed_up(&self) -> bool {
        !self.batch.is_empty()
    }
}

impl<T> Inbox<T> {
    /// The next batch, if there is one.
    pub fn take(&mut self) -> Option<Vec<T>> {
        // The end of a sender becomes known in another way.
        let batch = self.batches.try_recv().ok();
        if batch.is_some() && self.waits.swap(false, Ordering::SeqCst) {
            self.ring();
        }
        batch
    }

    /// Tells the sender to look at its queue.
    pub fn ring(&self) {
        self.sender.ring();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark() -> Bell {
        Bell::Mark(Arc::default())
    }

    #[test]
    fn a_turn_goes_as_one_batch_and_a_full_queue_keeps_the_order() {
        let (mut sender, mut inbox) = queue::<usize>(mark(), mark());
        sender.push(0);
        sender.push(1);
        assert_eq!(inbox.take(), None, "not sent yet");
        sender.flush();
        sender.flush();
        assert_eq!(inbox.take(), Some(vec![0, 1]));
        assert_eq!(inbox.take(), None);
        for i in 0..BATCHES_MAX + 3 {
            sender.push(i);
            sender.flush();
            assert_eq!(sender.is_backed_up(), i >= BATCHES_MAX, "{i}");
        }
        assert_eq!(inbox.take(), Some(vec![0]));
        sender.flush();
        assert!(!sender.is_backed_up());
        let rest: Vec<usize> = std::iter::from_fn(|| inbox.take()).flatten().collect();
        assert_eq!(rest, (1..BATCHES_MAX + 3).collect::<Vec<_>>());
    }

    #[test]
    fn everything_arrives_in_order_across_threads() {
        const ITEMS: u64 = 20_000;
        let bell = Waker::new().unwrap();
        let (mut sender, mut inbox) = queue::<u64>(Bell::Wake(bell.clone()), mark());
        let taker = std::thread::spawn(move || {
            let mut next = 0;
            while next < ITEMS {
                for item in inbox.take().unwrap_or_default() {
                    assert_eq!(item, next);
                    next += 1;
                }
            }
        });
        for item in 0..ITEMS {
            sender.push(item);
            sender.flush();
        }
        while sender.is_backed_up() {
            sender.flush();
        }
        taker.join().unwrap();
    }

    #[test]
    fn whoever_has_ended_is_not_waited_for() {
        let (mut sender, inbox) = queue::<usize>(mark(), mark());
        drop(inbox);
        sender.push(1);
        sender.flush();
        assert!(!sender.is_backed_up());
    }
}
