//! Drives clusters by a plan: real clients and a real clock around the cores of crate `bench`, which decide.
//!
//! * [`run()`] — start here: a whole plan, clusters in turns.
//! * [`iteration`]: one workload on one cluster once, from connecting to cleaning up.
//! * [`crew`], [`threads`], [`instance`], [`control`]: who does the work, and how they are told what to do.
//! * [`agents`]: the same on other machines, and how this one leads them.
//! * [`objects`]: the objects of a pool, as workers see them; tests put something else there.
//! * [`tools`]: Ceph's own load generators instead.
//! * [`pools`], [`environment`], [`run_folder`], [`observer`]: what belongs to it.
//! * [`meter`], [`telemetry`], [`ceilings`], [`hops`]: what it cost the machine, what the machine can do, and where the
//!   time of operations went.
//! * [`client_cost`]: what our client spends per operation, beside librados.
//!
//! What is absent: any choice of what to do next, and any statistics.

pub mod agents;
pub mod ceilings;
pub mod client_cost;
pub mod control;
pub mod crew;
pub mod environment;
pub mod hops;
pub mod images;
pub mod instance;
pub mod iteration;
pub mod meter;
pub mod objects;
pub mod observer;
pub mod pools;
pub mod record;
pub mod run;
pub mod run_folder;
pub mod task;
pub mod telemetry;
pub mod threads;
pub mod timer;
pub mod tools;

pub use observer::{Event, Live, Observer, Rates};
pub use run::{Options, RunError, engine_of, run};
