//! Tests of the loop on io_uring, of its fallback, and of its simulated twin.

mod clocks_that_stand;
mod conformance;
mod forbidden;
mod real;
mod stalls;
mod worlds;
