//! The first change of a clone's object, with a fault at each of the operations that it takes.

use super::{OBJECT, SIZE, golden, read_all, with_clone};
use crate::error::Error;
use crate::in_memory::{Fault, Memory, Seen, simulate};
use crate::rbd::{Image, feature};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use types::Errno;
use wire::messages::OpCode;

const TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Trouble {
    Refused,
    RequestLost,
    ReplyLost,
    Late,
    /// The caller drops the future.
    Dropped,
    /// The client dies.
    Killed,
    /// The session breaks.
    Broken,
}

const TROUBLES: [Trouble; 7] = [
    Trouble::Refused,
    Trouble::RequestLost,
    Trouble::ReplyLost,
    Trouble::Late,
    Trouble::Dropped,
    Trouble::Killed,
    Trouble::Broken,
];

/// Kind of the first change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum First {
    Write,
    WriteWhole,
    Discard,
    DiscardWhole,
    /// A write across parts of two objects.
    Across,
}

const FIRSTS: [First; 5] = [First::Write, First::WriteWhole, First::Discard, First::DiscardWhole, First::Across];

impl First {
    /// The ranges that change together, each with its new byte.
    fn parts(self) -> Vec<(u64, u64, u8)> {
        match self {
            First::Write => vec![(OBJECT + 100, 200, b'A')],
            First::WriteWhole => vec![(OBJECT, OBJECT, b'A')],
            First::Discard => vec![(OBJECT + 100, 200, 0)],
            First::DiscardWhole => vec![(OBJECT, OBJECT, 0)],
            First::Across => vec![(2 * OBJECT - 100, 100, b'A'), (2 * OBJECT, 100, b'A')],
        }
    }

    async fn make(self, image: Image) -> Result<(), Error> {
        let parts = self.parts();
        let (offset, length) = (parts[0].0, parts.iter().map(|(_, length, _)| *length).sum());
        match parts[0].2 {
            0 => image.discard(offset, length).await,
            byte => image.write(offset, vec![byte; length as usize]).await,
        }
    }
}

/// The values that each byte of the image may have.
struct Expected(Vec<Vec<u8>>);

impl Expected {
    /// Notes the end of a change. `alone`: no other change of these bytes is in flight.
    fn ended(&mut self, result: &Result<(), Error>, parts: &[(u64, u64, u8)], alone: bool) {
        for (offset, length, byte) in parts {
            for may_be in &mut self.0[*offset as usize..][..*length as usize] {
                if result.is_ok() && alone {
                    may_be.clear();
                }
                may_be.push(*byte);
            }
        }
    }

    fn check(&self, shown: &[u8]) {
        let wrong = shown.iter().zip(&self.0).position(|(shown, may_be)| !may_be.contains(shown));
        let wrong = wrong.map(|at| (at, shown[at], self.0[at].clone()));
        assert_eq!(wrong, None, "a byte that nobody wrote: where, what, and what it may be");
    }
}

/// Causes trouble at the `at`th operation of client `gid` from now on. Returns the counter of its operations.
fn trouble_at(memory: &Memory, gid: u64, at: u64, trouble: Trouble) -> Arc<AtomicU64> {
    let count = Arc::new(AtomicU64::new(0));
    let counted = count.clone();
    memory.set_rule(move |seen: &Seen<'_>| {
        let code = seen.op.ops[0].code;
        if seen.client != gid || [OpCode::WATCH, OpCode::NOTIFY, OpCode::NOTIFY_ACK].contains(&code) {
            return Fault::None;
        }
        if counted.fetch_add(1, Ordering::Relaxed) + 1 != at {
            return Fault::None;
        }
        match trouble {
            Trouble::Refused => Fault::Refuse(Errno::ENOSPC),
            Trouble::RequestLost => Fault::LoseRequest,
            Trouble::ReplyLost => Fault::LoseReply,
            Trouble::Late => Fault::Late(TIMEOUT * 3),
            Trouble::Dropped | Trouble::Killed | Trouble::Broken => Fault::Hold,
        }
    });
    count
}

/// Runs one case. False once the first change has fewer operations than `at`.
async fn first_change(seed: u64, at: u64, trouble: Trouble, first: First, features: u64, snapshot: bool) -> bool {
    let memory = with_clone(seed, features).await;
    let waits = [Trouble::Dropped, Trouble::Killed, Trouble::Broken].contains(&trouble);
    let (gid, cluster) = memory.client((!waits).then_some(TIMEOUT)).await;
    let pool = cluster.pool("p").await.expect("the pool");
    let image = Image::open(&pool, "disk").await.expect("the clone");
    if snapshot {
        image.create_snapshot("early").await.expect("a snapshot");
    }
    let mut expected = Expected(golden().into_iter().map(|byte| vec![byte]).collect());
    let count = trouble_at(&memory, gid, at, trouble);
    let result = if waits {
        let changing = first.make(image.clone());
        tokio::select! {
            biased;
            result = changing => result,
            // The future of the change is dropped here.
            () = memory.until_held() => Err(Error::Closed),
        }
    } else {
        first.make(image.clone()).await
    };
    if count.load(Ordering::Relaxed) < at {
        assert_eq!(result, Ok(()), "nothing went wrong");
        return false;
    }
    expected.ended(&result, &first.parts(), true);
    match trouble {
        Trouble::Killed => memory.kill(gid),
        Trouble::Broken => {
            memory.reset(gid);
            memory.release();
        }
        _ => memory.release(),
    }
    if trouble != Trouble::Killed {
        let second = image.write(OBJECT + 1000, vec![b'B'; 50]).await;
        expected.ended(&second, &[(OBJECT + 1000, 50, b'B')], result.is_ok());
        expected.check(&read_all(&image).await);
    }
    // Another client goes on.
    let (_, pool) = memory.pool("p").await;
    let other = Image::open(&pool, "disk").await.expect("the clone");
    let third = other.write(OBJECT + 2000, vec![b'C'; 50]).await;
    assert_eq!(third, Ok(()), "the lock is taken away from who is gone or in doubt");
    expected.ended(&third, &[(OBJECT + 2000, 50, b'C')], true);
    let shown = read_all(&other).await;
    expected.check(&shown);
    if snapshot {
        let early = Image::open_snapshot(&pool, "disk", "early").await.expect("the snapshot");
        assert!(read_all(&early).await == golden(), "the snapshot has changed");
    } else {
        other.flatten().await.expect("flattening");
        assert!(read_all(&other).await == shown, "flattening has changed something");
    }
    // Late operations have arrived by the end of this sleep.
    tokio::time::sleep(Duration::from_secs(100)).await;
    assert!(read_all(&other).await == shown, "something has changed that nobody changes any more");
    other.close().await.expect("closing");
    assert_eq!(shown.len() as u64, SIZE);
    true
}

fn check(first: First, features: u64, snapshot: bool) {
    for trouble in TROUBLES {
        let mut at = 1;
        for seed in 0.. {
            println!("operation {at} of {first:?}: {trouble:?}, features {features:#x}, snapshot: {snapshot}");
            if !simulate(first_change(seed, at, trouble, first, features, snapshot)) {
                break;
            }
            at += 1;
        }
        assert!(at > 2, "there were operations for something to go wrong at");
    }
}

#[test]
fn a_clone_shows_its_parent_whatever_became_of_the_first_change_of_an_object() {
    FIRSTS.into_iter().for_each(|first| check(first, feature::DEFAULT, false));
}

#[test]
fn a_clone_without_an_object_map_shows_its_parent_whatever_became_of_the_first_change() {
    FIRSTS.into_iter().for_each(|first| check(first, feature::LAYERING | feature::EXCLUSIVE_LOCK, false));
}

#[test]
fn a_clones_snapshot_shows_its_parent_whatever_became_of_the_first_change_behind_it() {
    FIRSTS.into_iter().for_each(|first| check(first, feature::DEFAULT, true));
}
