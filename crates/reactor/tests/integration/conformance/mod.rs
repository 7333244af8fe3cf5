//! The same scenarios run on io_uring, on the fallback and in the simulator: what a handler sees is the same.

mod disk;
mod scenario;
mod streams;
mod timers;
