//! Several futures at once, without a runtime.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

/// Futures that run at once, up to a number, each of which begins when it is added. Their outputs come in that order.
pub(crate) struct Window<F: Future> {
    running: VecDeque<State<F>>,
    most: usize,
}

enum State<F: Future> {
    Running(Pin<Box<F>>),
    Done(F::Output),
}

impl<F: Future> Window<F> {
    /// `most`: number of futures at once, at least 1.
    pub fn new(most: usize) -> Window<F> {
        Window { running: VecDeque::new(), most: most.max(1) }
    }

    /// Adds a future and begins it, once there is room. Gives the outputs that had to come first.
    pub async fn add(&mut self, future: F) -> Option<F::Output> {
        let earlier = if self.running.len() >= self.most { self.next().await } else { None };
        self.running.push_back(State::Running(Box::pin(future)));
        self.turn().await;
        earlier
    }

    /// Lets every future go on as far as it can.
    async fn turn(&mut self) {
        poll_fn(|context| {
            self.poll(context);
            Poll::Ready(())
        })
        .await;
    }

    fn poll(&mut self, context: &mut std::task::Context<'_>) {
        for state in &mut self.running {
            if let State::Running(future) = state
                && let Poll::Ready(output) = future.as_mut().poll(context)
            {
                *state = State::Done(output);
            }
        }
    }

    /// The output of the earliest future; `None` if there is none.
    pub async fn next(&mut self) -> Option<F::Output> {
        poll_fn(|context| {
            self.poll(context);
            match self.running.front() {
                None => Poll::Ready(None),
                Some(State::Running(_)) => Poll::Pending,
                Some(State::Done(_)) => match self.running.pop_front() {
                    Some(State::Done(output)) => Poll::Ready(Some(output)),
                    _ => unreachable!("the front is done"),
                },
            }
        })
        .await
    }
}

/// Runs all futures, `most` of them at once. Gives their outputs in order.
pub(crate) async fn all<F: Future>(futures: Vec<F>, most: usize) -> Vec<F::Output> {
    let mut window = Window::new(most);
    let mut outputs = Vec::new();
    for future in futures {
        outputs.extend(window.add(future).await);
    }
    while let Some(output) = window.next().await {
        outputs.push(output);
    }
    outputs
}

/// Runs two futures at once.
pub(crate) async fn both<A: Future, B: Future>(a: A, b: B) -> (A::Output, B::Output) {
    let (mut a, mut b) = (Box::pin(a), Box::pin(b));
    let (mut done_a, mut done_b) = (None, None);
    poll_fn(move |context| {
        if done_a.is_none()
            && let Poll::Ready(output) = a.as_mut().poll(context)
        {
            done_a = Some(output);
        }
        if done_b.is_none()
            && let Poll::Ready(output) = b.as_mut().poll(context)
        {
            done_b = Some(output);
        }
        match (done_a.take(), done_b.take()) {
            (Some(a), Some(b)) => Poll::Ready((a, b)),
            (a, b) => {
                (done_a, done_b) = (a, b);
                Poll::Pending
            }
        }
    })
    .await
}
