//! Cores of the load generator: what to run, what to write and how to check it, when to do what, and what the numbers
//! say. No sockets, clocks or threads: time comes in as a `Duration` since the run's start, randomness from the plan's
//! seed, so a run can be repeated operation by operation.
//!
//! Start at [`plan`], the description of a run; then, in the order of a run:
//!
//! | module | what it answers |
//! |---|---|
//! | [`plan`] | what is compared, with which load, for how long; refuses what cannot be run |
//! | [`pattern`] | which bytes an object holds, and where wrong bytes came from |
//! | [`schedule`] | what a worker does next, and from when its latency counts |
//! | [`histogram`], [`series`] | latencies as a distribution, and over time in bounded memory |
//! | [`recorder`] | what ended in the part of the run that counts |
//! | [`steady`] | when a measurement no longer drifts |
//! | [`interval`], [`compare`] | medians with confidence intervals; which of two is faster |
//! | [`hops`] | where the time of operations went, as OSDs tell it |
//! | [`clock`] | how far another machine's clock is from ours |
//! | [`ceiling`] | what held a measurement back |
//! | [`client_cost`] | what client libraries spend per operation |
//! | [`tool`] | what other load generators can do of a plan, and what they print |
//! | [`report`] | the result as JSON, CSV and Markdown |
//!
//! What is absent: this crate speaks to no cluster and reads no file.

pub mod ceiling;
pub mod client_cost;
pub mod clock;
pub mod compare;
pub mod histogram;
pub mod hops;
pub mod interval;
pub mod pattern;
pub mod plan;
pub mod random;
pub mod recorder;
pub mod report;
pub mod schedule;
pub mod series;
pub mod steady;
pub mod tool;
