//! Tasks about block images, which a worker carries out: a record of what is to be done, by whom, and of its end.

use super::purge_schedules::{PurgeSchedules, ScheduleChange};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use types::{PoolId, Utime};
use wire::{Decode, DecodeError, Encode, Reader, Writer};

/// Most tasks at a time, of all pools and of one.
pub const TASKS_MAX: usize = 4096;
pub const POOL_TASKS_MAX: usize = 1024;
/// Tasks that have ended and are remembered.
const ENDED_MAX: usize = 50;
/// Wait before a task that has failed is tried again: so long for every attempt, and this at most. Ceph's.
const RETRY: Duration = Duration::from_secs(30);
const RETRY_MAX: Duration = Duration::from_secs(300);
/// Time for which a worker has a task, unless it says that it goes on.
pub const LEASE: Duration = Duration::from_secs(30);

/// The work of a task.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum TaskAction {
    Flatten,
    Remove,
    TrashRemove,
    /// Removes from the trash of a pool and namespace what is due. A schedule asks for it, and it is not listed.
    TrashPurge,
}

impl TaskAction {
    /// Returns the name that Ceph gives it.
    pub fn name(self) -> &'static str {
        match self {
            TaskAction::Flatten => "flatten",
            TaskAction::Remove => "remove",
            TaskAction::TrashRemove => "trash remove",
            TaskAction::TrashPurge => "trash purge",
        }
    }
}

/// A worker has a task.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TaskLease {
    /// The number that the worker gives itself when it starts.
    pub worker: String,
    /// Time at which it took the task, and until which it has it.
    pub since: Utime,
    pub until: Utime,
}

/// One task.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ImageTask {
    /// Place in the order in which tasks were added.
    pub sequence: u64,
    /// A UUID.
    pub id: String,
    pub action: TaskAction,
    /// The pool, by the name that it had when the task was added: another pool may have it by now.
    pub pool: String,
    pub pool_id: PoolId,
    pub namespace: String,
    /// Empty for an image in the trash.
    pub image: String,
    /// Empty until it is known.
    pub image_id: String,
    pub added: Utime,
    /// Attempts that failed, the reason of the last one, and the time of the next.
    pub attempts: u32,
    pub failure: String,
    pub retry_at: Utime,
    pub lease: Option<TaskLease>,
    /// Parts of 10 000 that are done.
    pub done: u32,
    /// It is to stop, and a worker has it still.
    pub canceled: bool,
}

/// Parts of which a task's progress is counted.
pub const ALL_DONE: u32 = 10_000;

impl ImageTask {
    /// Returns the image as people name it.
    pub fn spec(&self) -> String {
        let image = if self.action == TaskAction::TrashRemove { &self.image_id } else { &self.image };
        let parts = [&self.pool, &self.namespace, image].into_iter().filter(|part| !part.is_empty());
        parts.map(String::as_str).collect::<Vec<_>>().join("/")
    }

    /// Returns the task in words, which are Ceph's.
    pub fn message(&self) -> String {
        match self.action {
            TaskAction::Flatten => format!("Flattening image {}", self.spec()),
            TaskAction::Remove => format!("Removing image {}", self.spec()),
            TaskAction::TrashRemove => format!("Removing image {} from trash", self.spec()),
            TaskAction::TrashPurge => format!("Purging the trash of {}", self.spec()),
        }
    }

    /// Returns true if another task is about the same: the same work on an image of the same name, or of the same id in
    /// the trash.
    pub fn is_same_work(&self, other: &ImageTask) -> bool {
        fn subject(task: &ImageTask) -> (TaskAction, [&str; 3]) {
            let image = if task.action == TaskAction::TrashRemove { &task.image_id } else { &task.image };
            (task.action, [&task.pool, &task.namespace, image])
        }
        subject(self) == subject(other)
    }

    /// Returns true if a worker has the task. A lease that ends later than any could that was given by now is that of a
    /// leader whose clock was ahead, and is none.
    pub fn is_in_progress(&self, now: Utime) -> bool {
        let latest = later(now, LEASE);
        self.lease.as_ref().is_some_and(|lease| lease.until > now && lease.until <= latest)
    }

    /// Returns the time from which on the task may be taken, `now` at the latest. `None`: it has to wait. A wait that
    /// is longer than any is that of a leader whose clock was ahead, and is none.
    fn due_since(&self, now: Utime) -> Option<Utime> {
        let is_due = self.retry_at <= now || self.retry_at > later(now, RETRY_MAX);
        is_due.then(|| self.retry_at.min(now).max(self.added.min(now)))
    }

    /// Returns the place of a task that this worker may take among all of those: its own first, then the one that is
    /// due for longest. `None`: it may not take the task.
    pub fn turn(&self, worker: &str, now: Utime) -> Option<(bool, Utime, u64)> {
        self.is_free(worker, now).then(|| (!self.is_with(worker), self.due_since(now).unwrap_or(now), self.sequence))
    }

    /// Returns true if the task was with another worker, which has told nothing of it for too long.
    pub fn is_orphaned(&self, worker: &str, now: Utime) -> bool {
        self.lease.is_some() && !self.is_in_progress(now) && !self.is_with(worker)
    }

    /// Returns true if this worker has the task.
    pub fn is_with(&self, worker: &str) -> bool {
        self.lease.as_ref().is_some_and(|lease| lease.worker == worker)
    }

    /// Returns true if a worker may take the task.
    pub fn is_free(&self, worker: &str, now: Utime) -> bool {
        !self.canceled && self.due_since(now).is_some() && (!self.is_in_progress(now) || self.is_with(worker))
    }

    /// Returns the task as one that a worker has from now on, or goes on to have.
    pub fn taken(mut self, worker: &str, now: Utime) -> ImageTask {
        let since = self.lease.filter(|lease| lease.worker == worker).map_or(now, |lease| lease.since);
        let until = later(now, LEASE);
        self.lease = Some(TaskLease { worker: worker.to_owned(), since, until });
        self
    }

    /// Returns the task as one whose attempt has failed.
    pub fn failed(mut self, why: &str, now: Utime) -> ImageTask {
        self.attempts = self.attempts.saturating_add(1);
        self.failure = why.to_owned();
        self.retry_at = later(now, RETRY.saturating_mul(self.attempts).min(RETRY_MAX));
        self.given_back()
    }

    /// Returns the task as one that no worker has.
    pub fn given_back(self) -> ImageTask {
        ImageTask { lease: None, done: 0, ..self }
    }

    /// Returns the approximate bytes that it takes.
    pub fn bytes(&self) -> usize {
        const BESIDE: usize = 192;
        let texts = [&self.pool, &self.namespace, &self.image, &self.image_id, &self.failure];
        texts.into_iter().map(String::len).sum::<usize>() + BESIDE
    }
}

/// Returns a time that is later by this; one that is too late for a stamp is the last there is.
fn later(time: Utime, by: Duration) -> Utime {
    Utime { sec: u32::try_from((time.to_unix() + by).as_secs()).unwrap_or(u32::MAX), ..time }
}

/// A task that has ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EndedTask {
    pub task: ImageTask,
    pub at: Utime,
    /// The reason for which it was given up; empty if it was done.
    pub failure: String,
}

/// All tasks.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct ImageTasks {
    /// The number of the last task that was added.
    pub last: u64,
    /// By their numbers.
    pub tasks: BTreeMap<u64, ImageTask>,
    /// Oldest first.
    pub ended: VecDeque<EndedTask>,
    /// Schedules, by which tasks are added.
    pub schedules: PurgeSchedules,
}

/// A change of the tasks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TaskChange {
    /// A task is added or changed.
    Set(ImageTask),
    /// A task is removed without a trace.
    Removed(u64),
    /// A task is over; empty text: it was done.
    Ended {
        sequence: u64,
        at: Utime,
        failure: String,
    },
    Schedule(ScheduleChange),
}

impl ImageTasks {
    /// Returns the task with this id.
    pub fn find(&self, id: &str) -> Option<&ImageTask> {
        self.tasks.values().find(|task| task.id == id)
    }

    pub fn bytes(&self) -> usize {
        let tasks = self.tasks.values().chain(self.ended.iter().map(|ended| &ended.task));
        tasks.map(ImageTask::bytes).sum::<usize>() + self.schedules.bytes()
    }

    pub fn apply(&mut self, change: &TaskChange) {
        match change {
            TaskChange::Set(task) => {
                self.last = self.last.max(task.sequence);
                self.tasks.insert(task.sequence, task.clone());
            }
            TaskChange::Schedule(change) => self.schedules.apply(change),
            TaskChange::Removed(sequence) => drop(self.tasks.remove(sequence)),
            TaskChange::Ended { sequence, at, failure } => {
                let Some(task) = self.tasks.remove(sequence) else { return };
                self.ended.push_back(EndedTask { task, at: *at, failure: failure.clone() });
                if self.ended.len() > ENDED_MAX {
                    self.ended.pop_front();
                }
            }
        }
    }
}

impl Encode for ImageTask {
    fn encode(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| {
            w.u64(self.sequence);
            w.str(&self.id);
            w.u8(match self.action {
                TaskAction::Flatten => 1,
                TaskAction::Remove => 2,
                TaskAction::TrashRemove => 3,
                TaskAction::TrashPurge => 4,
            });
            [&self.pool, &self.namespace, &self.image, &self.image_id].into_iter().for_each(|text| w.str(text));
            w.put(&self.pool_id);
            w.put(&self.added);
            w.u32(self.attempts);
            w.str(&self.failure);
            w.put(&self.retry_at);
            w.bool(self.lease.is_some());
            if let Some(TaskLease { worker, since, until }) = &self.lease {
                w.str(worker);
                w.put(since);
                w.put(until);
            }
            w.u32(self.done);
            w.bool(self.canceled);
        });
    }
}

impl Decode for ImageTask {
    const MIN_BYTES: usize = 64;

    fn decode(r: &mut Reader<'_>) -> Result<ImageTask, DecodeError> {
        let (_, mut r) = r.versioned("task about an image", 1)?;
        let (sequence, id) = (r.u64()?, r.get()?);
        let action = match r.u8()? {
            1 => TaskAction::Flatten,
            2 => TaskAction::Remove,
            3 => TaskAction::TrashRemove,
            4 => TaskAction::TrashPurge,
            other => return Err(DecodeError::Value { what: "task about an image", value: other.into() }),
        };
        Ok(ImageTask {
            sequence,
            id,
            action,
            pool: r.get()?,
            namespace: r.get()?,
            image: r.get()?,
            image_id: r.get()?,
            pool_id: r.get()?,
            added: r.get()?,
            attempts: r.u32()?,
            failure: r.get()?,
            retry_at: r.get()?,
            lease: match r.bool()? {
                true => Some(TaskLease { worker: r.get()?, since: r.get()?, until: r.get()? }),
                false => None,
            },
            done: r.u32()?,
            canceled: r.bool()?,
        })
    }
}

impl Encode for EndedTask {
    fn encode(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| {
            w.put(&self.task);
            w.put(&self.at);
            w.str(&self.failure);
        });
    }
}

impl Decode for EndedTask {
    const MIN_BYTES: usize = 64;

    fn decode(r: &mut Reader<'_>) -> Result<EndedTask, DecodeError> {
        let (_, mut r) = r.versioned("ended task about an image", 1)?;
        Ok(EndedTask { task: r.get()?, at: r.get()?, failure: r.get()? })
    }
}

impl Encode for ImageTasks {
    fn encode(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| {
            w.u64(self.last);
            w.put(&self.tasks);
            w.put(&Vec::from_iter(self.ended.iter().cloned()));
            w.put(&self.schedules);
        });
    }
}

impl Decode for ImageTasks {
    fn decode(r: &mut Reader<'_>) -> Result<ImageTasks, DecodeError> {
        let (_, mut r) = r.versioned("tasks about images", 1)?;
        Ok(ImageTasks {
            last: r.u64()?,
            tasks: r.get()?,
            ended: r.get::<Vec<EndedTask>>()?.into(),
            schedules: r.get()?,
        })
    }
}

impl Encode for TaskChange {
    fn encode(&self, w: &mut Writer) {
        match self {
            TaskChange::Set(task) => {
                w.u8(1);
                w.put(task);
            }
            TaskChange::Removed(sequence) => {
                w.u8(2);
                w.u64(*sequence);
            }
            TaskChange::Ended { sequence, at, failure } => {
                w.u8(3);
                w.u64(*sequence);
                w.put(at);
                w.str(failure);
            }
            TaskChange::Schedule(change) => {
                w.u8(4);
                w.put(change);
            }
        }
    }
}

impl Decode for TaskChange {
    fn decode(r: &mut Reader<'_>) -> Result<TaskChange, DecodeError> {
        match r.u8()? {
            1 => Ok(TaskChange::Set(r.get()?)),
            2 => Ok(TaskChange::Removed(r.u64()?)),
            3 => Ok(TaskChange::Ended { sequence: r.u64()?, at: r.get()?, failure: r.get()? }),
            4 => Ok(TaskChange::Schedule(r.get()?)),
            other => Err(DecodeError::Value { what: "change of tasks about images", value: other.into() }),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use wire::Target;

    pub(crate) fn task(sequence: u64) -> ImageTask {
        ImageTask {
            sequence,
            id: format!("id-{sequence}"),
            action: TaskAction::Flatten,
            pool: "p".to_owned(),
            pool_id: PoolId(1),
            namespace: String::new(),
            image: "i".to_owned(),
            image_id: String::new(),
            added: at(0),
            attempts: 0,
            failure: String::new(),
            retry_at: Utime::ZERO,
            lease: None,
            done: 0,
            canceled: false,
        }
    }

    fn at(sec: u32) -> Utime {
        Utime { sec, nsec: 0 }
    }

    #[test]
    fn a_lease_ends_unless_its_worker_goes_on() {
        let taken = task(1).taken("w", at(100));
        assert!(!taken.is_free("v", at(129)) && taken.is_free("w", at(101)));
        assert!(taken.is_free("v", at(130)));
        let goes_on = taken.clone().taken("w", at(120));
        assert!(!goes_on.is_free("v", at(149)) && goes_on.is_free("v", at(150)));
        assert_eq!(goes_on.lease.expect("a lease").since, at(100));
        assert_eq!(taken.taken("v", at(130)).lease.expect("a lease").since, at(130));
    }

    #[test]
    fn a_clock_that_was_ahead_holds_nothing_up() {
        let ahead = task(1).taken("w", at(50_000));
        assert!(!ahead.is_in_progress(at(100)) && ahead.is_free("v", at(100)) && ahead.is_orphaned("v", at(100)));
        let waits = task(2).failed("it was busy", at(50_000));
        assert!(waits.is_free("v", at(100)) && !waits.is_free("v", at(49_900)));
        assert_eq!(task(3).taken("w", at(u32::MAX)).lease.expect("a lease").until, at(u32::MAX));
    }

    #[test]
    fn the_task_that_is_due_for_longest_comes_first() {
        let (failed, fresh) = (task(1).failed("it was busy", at(100)), ImageTask { added: at(120), ..task(2) });
        let first = |now: u32| {
            let turns = [&failed, &fresh].into_iter().filter_map(|task| task.turn("w", at(now)));
            turns.min().map(|(.., sequence)| sequence)
        };
        assert_eq!((first(121), first(200)), (Some(2), Some(2)), "others do not wait for it");
        let later = ImageTask { added: at(140), ..task(3) };
        assert!(failed.turn("w", at(200)) < later.turn("w", at(200)), "it does not wait for all that come");
        assert!(later.clone().taken("w", at(200)).turn("w", at(201)) < failed.turn("w", at(201)), "it has that one");
    }

    #[test]
    fn the_wait_grows_with_the_attempts_up_to_a_bound() {
        let mut failed = task(1).taken("w", at(1000));
        for wait in [30, 60, 90, 120, 150, 180, 210, 240, 270, 300, 300] {
            failed = failed.failed("it was busy", at(1000));
            assert_eq!(failed.retry_at, at(1000 + wait));
            assert!(!failed.is_free("w", at(999 + wait)) && failed.is_free("w", at(1000 + wait)));
        }
        assert_eq!((failed.attempts, failed.failure.as_str(), failed.lease), (11, "it was busy", None));
    }

    #[test]
    fn tasks_end_and_are_remembered_for_a_while() {
        let mut tasks = ImageTasks::default();
        for sequence in 1..=60 {
            tasks.apply(&TaskChange::Set(task(sequence)));
            tasks.apply(&TaskChange::Ended { sequence, at: at(7), failure: String::new() });
        }
        tasks.apply(&TaskChange::Set(task(61)));
        tasks.apply(&TaskChange::Removed(61));
        tasks.apply(&TaskChange::Ended { sequence: 61, at: at(7), failure: String::new() });
        assert_eq!((tasks.last, tasks.tasks.len(), tasks.ended.len()), (61, 0, 50));
        assert_eq!(tasks.ended[0].task.sequence, 11);
        tasks.apply(&TaskChange::Set(task(62).taken("w", at(9)).failed("no", at(9)).taken("w", at(70))));
        assert_eq!(ImageTasks::from_slice(&tasks.to_vec(Target::PACIFIC)), Ok(tasks));
    }
}
