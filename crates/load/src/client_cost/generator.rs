//! CPU time of load generators without a cluster.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bench::plan::{Stop, Workload};
use bytes::Bytes;
use rustix::time::{ClockId, clock_gettime};
use tokio::task::LocalSet;
use tokio::time::Instant;

use crate::control::{Director, Phase};
use crate::etags::Etags;
use crate::instance::Instance;
use crate::objects::{Failure, Objects};
use crate::record::SharedRecord;
use crate::task::Task;

/// Objects in memory. A whole write is kept, a partial one is dropped; every answer comes at once.
#[derive(Default)]
struct Memory {
    objects: Mutex<BTreeMap<String, Bytes>>,
}

impl Memory {
    fn objects(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Bytes>> {
        self.objects.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Objects for Memory {
    async fn write(&self, name: String, _: u64, data: Bytes, whole: bool) -> Result<(), Failure> {
        if whole {
            self.objects().insert(name, data);
        }
        // All other workers, and the task that ends the run, have a turn before this worker's next one.
        tokio::task::yield_now().await;
        Ok(())
    }

    async fn read(&self, name: String, offset: u64, length: u64) -> Result<Bytes, Failure> {
        tokio::task::yield_now().await;
        let objects = self.objects();
        let object = objects.get(&name).cloned().unwrap_or_default();
        let (from, to) = (offset as usize, (offset + length) as usize);
        Ok(if to <= object.len() { object.slice(from..to) } else { Bytes::new() })
    }

    async fn remove(&self, name: String) -> Result<(), Failure> {
        self.objects().remove(&name);
        Ok(())
    }
}

/// CPU time in microseconds per operation of `workload`'s first group without any cluster: choosing operations, making
/// and checking bytes, recording. Occupies one processor for `duration`.
///
/// Errors: a thread or its runtime cannot be had, or no operation was carried out.
pub fn cost(workload: &Workload, duration: Duration) -> Result<f64, String> {
    let workload = workload.clone();
    let thread = std::thread::Builder::new().name("generator".into()).spawn(move || measure(workload, duration));
    thread
        .map_err(|e| format!("a thread cannot be started: {e}"))?
        .join()
        .map_err(|_| "a thread panicked".to_owned())?
}

fn measure(mut workload: Workload, duration: Duration) -> Result<f64, String> {
    workload.warm_up_s = 0.0;
    workload.stop = Stop::DurationS(duration.as_secs_f64());
    // The group gets just enough objects for its workers: they stay in the processor's caches, as data does that has
    // just come from a socket.
    workload.groups.truncate(1);
    let group = &mut workload.groups[0];
    (group.objects, group.instances, group.prefill) = (1, 1, Some(true));
    group.objects = group.workers().div_ceil(group.blocks());
    let task = Arc::new(Task::new(1, "generator", 0, &workload, 0));
    let director = Director::default();
    let record = SharedRecord::new(task.rounds);
    let instance = Rc::new(Instance {
        objects: Memory::default(),
        task,
        group_index: 0,
        number: 0,
        record: record.clone(),
        control: director.control(),
        etags: Etags::default(),
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|e| e.to_string())?;
    LocalSet::new().block_on(&runtime, async {
        instance.clone().prefill().await?;
        let before = thread_cpu();
        let load = instance.load(Instant::now());
        let end = async {
            tokio::time::sleep(duration).await;
            director.go(Phase::Stop);
        };
        let (loaded, ()) = tokio::join!(load, end);
        loaded?;
        let spent = thread_cpu() - before;
        let record = record.lock();
        let total = record.recorder.total();
        match total.operations {
            0 => Err("nothing was done".into()),
            _ if record.mismatches > 0 || total.errors > 0 => Err("objects in memory gave wrong bytes".into()),
            operations => Ok(spent.as_secs_f64() * 1e6 / operations as f64),
        }
    })
}

/// CPU time of this thread.
fn thread_cpu() -> Duration {
    of(clock_gettime(ClockId::ThreadCPUTime))
}

/// CPU time of all threads of this process.
pub fn process_cpu() -> Duration {
    of(clock_gettime(ClockId::ProcessCPUTime))
}

fn of(time: rustix::time::Timespec) -> Duration {
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_generator_takes_time() {
        for access in bench::client_cost::Access::ALL {
            let workload = crate::client_cost::workload(access, 4096, 32, 0.2);
            let us = cost(&workload, Duration::from_millis(150)).unwrap();
            assert!((0.05..1000.0).contains(&us), "{access:?}: {us}");
        }
    }
}
