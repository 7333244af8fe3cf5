//! Cores of the load generator: choice of operations, data and its verification, schedules, and statistics. They have
//! no sockets, clocks or threads: time comes in as a `Duration` since the run's start, randomness from the plan's seed,
//! so a run can be repeated operation by operation.
//!
//! Start at [`plan`], the description of a run; then, in the order of a run:
//!
//! | module | content |
//! |---|---|
//! | [`plan`] | clusters, load and duration of a run; plans that cannot be run are refused |
//! | [`cbt`] | plans of the Ceph Benchmarking Tool |
//! | [`pattern`] | the bytes of an object, and the origin of wrong bytes |
//! | [`schedule`] | the next operation of a worker, and the time from which its latency counts |
//! | [`histogram`], [`series`] | latencies as a distribution, and over time in bounded memory |
//! | [`recorder`] | operations that ended in the counted part of the run |
//! | [`steady`] | the moment when a measurement no longer drifts |
//! | [`interval`], [`compare`] | medians with confidence intervals; comparison of two series |
//! | [`operating`] | the load at which a cluster should be used, on a curve of measured points |
//! | [`rebuild`] | loss of OSDs, and the time until every copy is restored |
//! | [`search`] | the load to measure next, to find one by measuring |
//! | [`hops`] | breakdown of operations' time, as OSDs tell it |
//! | [`clock`] | offset of another machine's clock |
//! | [`ceiling`] | bottleneck of a measurement |
//! | [`client_cost`] | CPU time of client libraries per operation |
//! | [`tool`] | capabilities and output of other load generators |
//! | [`import`] | output of `rados bench` and fio as a result |
//! | [`report`] | the result as JSON, CSV, Markdown and HTML |
//!
//! Absent: connections to clusters, and files.

pub mod cbt;
pub mod ceiling;
pub mod client_cost;
pub mod clock;
pub mod compare;
pub mod histogram;
pub mod hops;
pub mod import;
pub mod interval;
pub mod operating;
pub mod pattern;
pub mod plan;
pub mod random;
pub mod rebuild;
pub mod recorder;
pub mod report;
pub mod schedule;
pub mod search;
pub mod series;
pub mod steady;
pub mod tool;
