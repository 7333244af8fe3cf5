//! The open store: transactions come in, turns of writes and flushes go out, checkpoints shorten the log.
//!
//! * Begin with `store`: the parts of a [`Store`], its contract with the caller, the way of a completed request.
//! * A transaction passes `submit` (checks, space, redo steps), `queue` (it waits for metadata that is not in memory),
//!   `turns` (it shares one log record and one flush with others) and `flushing` (what is durable, device by device).
//! * `wal` is the ring of log records, `io_queue` holds the requests under way.
//! * `checkpoint` takes changes into the tree, at the pace that `merge_pace` gives.
//! * `stop` has the reasons why a store accepts no change any longer.
//! * `budget` and `cache_counts` count memory, `room` tells space to the layers above, `commit_times` tells where time
//!   went.

pub(crate) mod budget;
mod cache_counts;
pub(crate) mod checkpoint;
pub(crate) mod commit_times;
mod flushing;
pub(crate) mod io_queue;
mod merge_pace;
pub(crate) mod queue;
mod room;
mod stop;
pub(crate) mod store;
pub(crate) mod submit;
pub(crate) mod turns;
pub(crate) mod wal;

pub use budget::Memory;
pub use cache_counts::CacheCounts;
pub use commit_times::CommitTimes;
pub use room::growth_bytes;
pub use stop::{FailedRequest, StopReason};
pub use store::Store;
