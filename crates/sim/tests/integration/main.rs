//! Tests of whole clusters: under seeds, and in situations that are set up by hand.

mod far_behind;
mod heartbeats;
mod lost_metadata;
mod moves;
mod orderly_stop;
mod seeds;
mod shard_places;
mod splits;

/// The number of runs that a test makes: the value of the variable `name`, if it is set. If not, the usual number in
/// the whole suite (`NACRE_SUITE=whole`), and a quarter of it otherwise.
fn runs(name: &str, usual: u64) -> u64 {
    let is_whole = std::env::var("NACRE_SUITE").is_ok_and(|suite| suite == "whole");
    number(name).unwrap_or(if is_whole { usual } else { usual.div_ceil(4) })
}

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text} is not a number")))
}
