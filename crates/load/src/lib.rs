//! Drives clusters by a plan: real clients and a real clock around the cores of crate `bench`, which decide.
//!
//! * [`run()`] — start here: a whole plan, on its clusters in turns.
//! * [`iteration`]: one workload on one cluster once, from connecting to cleaning up.
//! * [`crew`], [`threads`], [`instance`], [`control`]: the workers of an iteration, and the phases that they are told.
//! * [`agents`]: workers on other machines, and the coordinator that commands them.
//! * [`objects`]: the objects of a pool, as workers see them; tests use objects in memory.
//! * [`s3`]: the objects of a bucket in their place, through a gateway.
//! * [`tools`]: Ceph's own load generators in place of ours.
//! * [`pools`], [`environment`], [`run_folder`], [`observer`]: pools, facts, files and progress of a run.
//! * [`meter`], [`telemetry`], [`ceilings`], [`hops`]: the cost of a run for the machine, the machine's capabilities,
//!   and where the time of operations went.
//! * [`rebuild`]: OSDs are lost, and the time until every copy is restored.
//! * [`client_cost`]: CPU time of our client per operation, beside librados.
//!
//! Absent: any choice of operations, and any statistics.

pub mod agents;
pub mod ceilings;
pub mod client_cost;
pub mod control;
pub mod crew;
pub mod environment;
pub mod etags;
pub mod hops;
pub mod images;
pub mod instance;
pub mod iteration;
pub mod meter;
pub mod objects;
pub mod observer;
pub mod pages;
pub mod pools;
pub mod rebuild;
pub mod record;
mod rows;
pub mod run;
pub mod run_folder;
pub mod s3;
pub mod task;
pub mod telemetry;
pub mod threads;
pub mod timer;
pub mod tools;

pub use observer::{Event, Live, Observer, Rates};
pub use run::{Options, RunError, SearchRules, engine_of, run};
