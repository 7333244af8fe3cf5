//! The planner: what a cluster needs that holds so much, survives so many failures, and serves such a workload.
//!
//! Everything is a formula of a few published or measured figures; docs/planner.md has all of them. Start at
//! [`Request`] and [`plan`]:
//!
//! | module | content |
//! |---|---|
//! | [`protection`] | copies and erasure codes: capacity, failures, bytes between servers |
//! | [`catalogue`] | drives, and clusters whose performance is known ([`catalogue.toml`](../catalogue.toml)) |
//! | [`performance`] | throughput, operations per second and processors, from a known cluster |
//! | [`sizing`] | servers, drives, OSDs, placement groups, memory, networks |
//! | [`rebuild`] | time to replace a drive, and the risk meanwhile |
//! | [`page`] | a plan as a page |
//!
//! Absent: files, clusters, clocks. A figure that nobody measured for such a cluster is either absent or named among
//! [`Plan::extrapolated`].

pub mod catalogue;
pub mod page;
pub mod performance;
pub mod protection;
pub mod rebuild;
pub mod sizing;

#[cfg(test)]
mod tests;

pub use catalogue::{Catalogue, CatalogueError, Drive, Known, Media};
pub use performance::Performance;
pub use protection::Protection;
pub use sizing::{Engine, Plan, Request, RequestError, Workload, alternatives, plan};
