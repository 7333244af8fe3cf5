//! The loop on io_uring, on its fallback, and its simulated twin.

mod clocks_that_stand;
mod conformance;
mod forbidden;
mod real;
mod stalls;
mod worlds;
