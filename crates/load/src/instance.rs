//! An instance of a group: one client with its workers. The schedule decides the next operation of a worker; this
//! module carries it out, times and checks it.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bench::plan::Load;
use bench::schedule::{Arrivals, Kind, OpenLoop, Operation, Outcome, PREFILL_VERSION, Worker};
use bytes::Bytes;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::control::Control;
use crate::etags::Etags;
use crate::objects::{Failure, Objects, SeenObject};
use crate::pages::Pages;
use crate::record::{SharedRecord, add_example};
use crate::task::Task;
use crate::timer::Timer;

/// Pause of a worker after a failed operation, so that a cluster that refuses everything is not flooded.
const ERROR_PAUSE: Duration = Duration::from_millis(20);
/// Largest write of the prefill.
const PREFILL_BYTES: u64 = 4 << 20;
/// Bytes and writes of the prefill in flight, per instance.
const PREFILL_IN_FLIGHT_BYTES: u64 = 32 << 20;
const PREFILL_IN_FLIGHT_MAX: u64 = 32;
/// Removals in flight per instance.
const REMOVALS_IN_FLIGHT: u64 = 32;

/// One client and its work.
pub struct Instance<O> {
    pub objects: O,
    pub task: Arc<Task>,
    pub group_index: u32,
    /// The instance's number within its group.
    pub number: u32,
    pub record: SharedRecord,
    pub control: Control,
    pub etags: Etags,
}

/// The outcome of one operation.
struct Done {
    operation: Operation,
    ended: Instant,
    result: Result<(), Failure>,
    /// The error in the bytes of a read, if they were wrong.
    mismatch: Option<String>,
}

impl<O: Objects> Instance<O> {
    fn group(&self) -> &bench::plan::Group {
        &self.task.groups[self.group_index as usize]
    }

    /// Writes this instance's share of the group's objects. Ends early when the run is stopped.
    ///
    /// Errors: the first write that failed; a measurement is not possible then.
    pub async fn prefill(self: Rc<Self>) -> Result<(), String> {
        let most = if self.objects.only_whole_writes() { u64::MAX } else { PREFILL_BYTES };
        let piece = self.group().object_bytes.min(most);
        let lanes = (PREFILL_IN_FLIGHT_BYTES / piece).clamp(1, PREFILL_IN_FLIGHT_MAX);
        let stopped = |control: &Control| control.is_stopped();
        self.for_all_objects(lanes, stopped, move |instance, object| async move {
            let group = instance.group();
            let name = instance.task.object_name(instance.group_index, object);
            let pattern = bench::pattern::Pattern {
                run: instance.task.run,
                object: bench::schedule::pattern_object(instance.group_index, object),
                version: u64::from(PREFILL_VERSION),
            };
            let mut offset = 0;
            while offset < group.object_bytes {
                let length = (group.object_bytes - offset).min(piece);
                let data = pattern.bytes(offset, length as usize);
                let whole = length == group.object_bytes;
                let written = instance.objects.write(name.clone(), offset, data.into(), whole).await;
                written.map_err(|failure| format!("writing object {name}: {}", failure.reason))?;
                instance.control.add_prepared(length);
                offset += length;
            }
            Ok(())
        })
        .await
    }

    /// Removes this instance's share of the group's objects, as far as they exist.
    ///
    /// Errors: the first object that could not be removed.
    pub async fn remove_objects(self: Rc<Self>) -> Result<(), String> {
        self.for_all_objects(
            REMOVALS_IN_FLIGHT,
            |_| false,
            |instance, object| async move {
                let name = instance.task.object_name(instance.group_index, object);
                let removed = instance.objects.remove(name.clone()).await;
                removed.map_err(|failure| format!("removing object {name}: {}", failure.reason))
            },
        )
        .await
    }

    /// Removes what remains after the objects are removed, such as an image.
    ///
    /// Errors: the reason why that failed.
    pub async fn finish(self: Rc<Self>) -> Result<(), String> {
        self.objects.finish().await.map_err(|failure| format!("removing what held the objects: {}", failure.reason))
    }

    /// Does `what` with this instance's share of the objects, `lanes` at a time, until `stopped`.
    async fn for_all_objects<F>(
        self: Rc<Self>,
        lanes: u64,
        stopped: fn(&Control) -> bool,
        what: impl Fn(Rc<Self>, u64) -> F + Clone + 'static,
    ) -> Result<(), String>
    where
        F: Future<Output = Result<(), String>> + 'static,
    {
        let (objects, stride) = (self.group().objects, u64::from(self.group().instances));
        let mut tasks = JoinSet::<Result<(), String>>::new();
        for lane in 0..lanes {
            let (instance, what) = (self.clone(), what.clone());
            let first = u64::from(self.number) + lane * stride;
            tasks.spawn_local(async move {
                let mut object = first;
                while object < objects && !stopped(&instance.control) {
                    what(instance.clone(), object).await?;
                    object += stride * lanes;
                }
                Ok(())
            });
        }
        while let Some(ended) = tasks.join_next().await {
            ended.map_err(|e| e.to_string())??;
        }
        Ok(())
    }

    /// Loads the cluster from `start` until the run is stopped and every operation has ended.
    ///
    /// Errors: a timer of this machine fails.
    pub async fn load(self: Rc<Self>, start: Instant) -> Result<(), String> {
        tokio::time::sleep_until(start).await;
        match self.group().load {
            Load::Closed { queue_depth } => {
                let mut workers = JoinSet::new();
                for slot in 0..queue_depth {
                    let worker = self.worker(slot);
                    workers.spawn_local(self.clone().closed_worker(worker, start));
                }
                while let Some(ended) = workers.join_next().await {
                    ended.map_err(|e| e.to_string())?;
                }
                Ok(())
            }
            Load::Open { .. } => self.open_loop(start).await.map_err(|e| format!("a timer of the kernel: {e}")),
        }
    }

    fn worker(&self, slot: u32) -> Worker {
        let per_instance = u64::from(self.group().workers_per_instance());
        let number = u64::from(self.number) * per_instance + u64::from(slot);
        Worker::new(self.task.seed, self.group_index, self.group(), number)
    }

    async fn closed_worker(self: Rc<Self>, mut worker: Worker, start: Instant) {
        while !self.control.is_stopped() {
            let operation = worker.next_operation();
            let data = self.data(&operation);
            let begun = Instant::now();
            let done = self.carry_out(operation, data).await;
            worker.ended(outcome(&done));
            let failed = done.result.is_err();
            self.note(&done, start, done.ended - begun);
            if failed {
                tokio::time::sleep(ERROR_PAUSE).await;
            }
        }
    }

    async fn open_loop(self: Rc<Self>, start: Instant) -> std::io::Result<()> {
        let group = self.group();
        let Load::Open { arrivals_per_s, spacing, in_flight_max } = group.load else {
            unreachable!("asked for with an open loop only")
        };
        let arrivals =
            Arrivals::new(self.task.seed, self.group_index, arrivals_per_s, spacing, self.number, group.instances);
        let mut open = OpenLoop::new(arrivals, in_flight_max);
        let mut workers: Vec<Option<Worker>> = (0..in_flight_max).map(|slot| Some(self.worker(slot))).collect();
        let mut running = JoinSet::new();
        let mut timer = Timer::new()?;
        let mut stopped = self.control.clone();
        loop {
            if self.control.is_stopped() {
                if running.is_empty() {
                    return Ok(());
                }
            } else {
                while let Some(begin) = open.poll(start.elapsed()) {
                    let mut worker = workers[begin.slot as usize].take().expect("a free slot has its worker");
                    let instance = self.clone();
                    running.spawn_local(async move {
                        let operation = worker.next_operation();
                        let done = instance.carry_out(operation, instance.data(&operation)).await;
                        worker.ended(outcome(&done));
                        (begin.slot, worker, done)
                    });
                }
            }
            let wait = open.wake_at().filter(|_| !self.control.is_stopped());
            let wait = wait.map(|at| at.saturating_sub(start.elapsed()));
            tokio::select! {
                Some(ended) = running.join_next() => {
                    let (slot, worker, done) = ended.map_err(std::io::Error::other)?;
                    workers[slot as usize] = Some(worker);
                    let latency = open.ended(slot, done.ended - start);
                    self.note(&done, start, latency);
                }
                slept = timer.sleep(wait.unwrap_or_default()), if wait.is_some() => slept?,
                () = stopped.stopped(), if !self.control.is_stopped() => {}
            }
        }
    }

    /// The bytes of a write.
    fn data(&self, operation: &Operation) -> Bytes {
        let Kind::Write { version } = operation.kind else { return Bytes::new() };
        let pattern = operation.pattern(self.task.run, self.group_index, version);
        pattern.bytes(operation.offset_bytes, operation.length_bytes as usize).into()
    }

    async fn carry_out(&self, operation: Operation, data: Bytes) -> Done {
        let name = self.task.object_name(self.group_index, operation.object);
        let (offset, length) = (operation.offset_bytes, operation.length_bytes);
        let (result, ended, mismatch) = match operation.kind {
            Kind::Write { .. } => {
                let whole = length == self.group().object_bytes;
                let result = self.objects.write(name, offset, data, whole).await;
                (result, Instant::now(), None)
            }
            Kind::Read { .. } => {
                let read = match length == self.group().object_bytes {
                    true => self.objects.read_whole(name, length).await,
                    false => self.objects.read(name, offset, length).await,
                };
                checked(&operation, read, |bytes| self.wrong(&operation, &bytes))
            }
            Kind::Head { .. } => {
                let seen = self.objects.head(name).await;
                checked(&operation, seen, |seen| self.wrong_head(&operation, &seen))
            }
            Kind::Delete { .. } => (self.objects.remove(name).await, Instant::now(), None),
            Kind::List => {
                let pages = Pages::of(&self.task, self.group_index);
                let page = self.objects.list(pages.prefix(), name, pages.max()).await;
                checked(&operation, page, |page| pages.wrong(operation.object, &page))
            }
        };
        Done { operation, ended, result, mismatch }
    }

    /// The error in what an object was said to be; `None` if it is right.
    fn wrong_head(&self, operation: &Operation, seen: &SeenObject) -> Option<String> {
        let (name, expected) = (self.task.object_name(self.group_index, operation.object), self.group().object_bytes);
        if seen.length != Some(expected) {
            let length = seen.length.map_or("no length".into(), |length| format!("{length} bytes"));
            return Some(format!("{name}: HEAD tells {length} instead of {expected}"));
        }
        let Some(etag) = &seen.etag else { return Some(format!("{name}: HEAD tells no ETag")) };
        let of = |version: u32| {
            let pattern = operation.pattern(self.task.run, self.group_index, version);
            self.etags.of((operation.object, version), || pattern.bytes(0, expected as usize))
        };
        let is_right = !Etags::is_known(etag) || operation.kind.acceptable().any(|version| of(version) == *etag);
        (!is_right).then(|| format!("{name}: HEAD tells the ETag {etag}, which none of its versions has"))
    }

    /// The error in the bytes that a read gave; `None` if they are right.
    fn wrong(&self, operation: &Operation, bytes: &[u8]) -> Option<String> {
        let name = || self.task.object_name(self.group_index, operation.object);
        if bytes.len() as u64 != operation.length_bytes {
            let (length, offset) = (operation.length_bytes, operation.offset_bytes);
            return Some(format!("{}: {} bytes instead of {length} at byte {offset}", name(), bytes.len()));
        }
        let mut first = None;
        for version in operation.kind.acceptable() {
            let pattern = operation.pattern(self.task.run, self.group_index, version);
            match pattern.verify(operation.offset_bytes, bytes) {
                Ok(()) => return None,
                Err(mismatch) => first = first.or(Some(mismatch)),
            }
        }
        let mismatch = first?;
        let (at, wanted) = (mismatch.offset, mismatch.wanted.version);
        Some(format!("{}: at byte {at}, instead of version {wanted}: {}", name(), mismatch.looks))
    }

    fn note(&self, done: &Done, start: Instant, latency: Duration) {
        let ended = done.ended.saturating_duration_since(start);
        let mut record = self.record.lock();
        match &done.result {
            Ok(()) if !done.operation.counts => {}
            Ok(()) => record.recorder.done(ended, latency, done.operation.length_bytes),
            Err(failure) => {
                record.recorder.failed(ended);
                add_example(&mut record.error_examples, || failure.reason.clone());
            }
        }
        if let Some(mismatch) = &done.mismatch {
            record.mismatches += 1;
            add_example(&mut record.mismatch_examples, || mismatch.clone());
        }
    }
}

/// The outcome of an operation that gives something, and the error in it. Checking is work of the client, and no part
/// of the cluster's latency.
fn checked<T>(
    operation: &Operation,
    answer: Result<T, Failure>,
    wrong: impl FnOnce(T) -> Option<String>,
) -> (Result<(), Failure>, Instant, Option<String>) {
    let ended = Instant::now();
    match answer {
        Ok(given) => (Ok(()), ended, wrong(given)),
        Err(failure) if failure.is_absent && operation.may_be_absent => (Ok(()), ended, None),
        Err(failure) => (Err(failure), ended, None),
    }
}

fn outcome(done: &Done) -> Outcome {
    match &done.result {
        Ok(()) => Outcome::Done,
        Err(failure) => failure.outcome,
    }
}
