//! Scenarios that run on io_uring, on epoll and in the simulator: handlers see the same events on each.

mod disk;
mod scenario;
mod streams;
mod timers;
