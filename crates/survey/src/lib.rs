//! A cluster that runs, as its daemons describe it: state, risks, limits, and the changes worth making.
//!
//! Start at [`Answers`], what was asked, and [`Survey::of`].
//!
//! | module | content |
//! |---|---|
//! | [`answers`] | answers of monitors and OSDs, and how they are read |
//! | [`cluster`] | OSDs, hosts and pools of a cluster |
//! | [`risk`] | fill, imbalance, rebuild time, loss |
//! | [`time`] | where the time of operations goes |
//! | [`advice`] | changes worth making, each with its evidence |
//! | [`page`] | a survey as a page |
//!
//! Absent: connections, clocks, files. A figure that no daemon told is absent, never zero; one that is assumed says so.

pub mod advice;
pub mod answers;
pub mod cluster;
pub mod page;
pub mod risk;
pub mod time;

#[cfg(test)]
mod tests;

pub use advice::Advice;
pub use answers::Answers;
pub use cluster::{Cluster, Osd, Pool, failure_domain};
pub use risk::Risk;
pub use time::Kind;

use serde::Serialize;

/// Value of the field `format` of a survey in JSON.
pub const FORMAT: &str = "nacre-survey";
pub const VERSION: u32 = 1;

/// A cluster as it was when it was asked.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Survey {
    pub format: &'static str,
    pub version: u32,
    pub cluster: Cluster,
    pub risk: Risk,
    /// Writes, then reads, as far as OSDs told of any.
    pub time: Vec<Kind>,
    /// Rates that a load of our own reached, if there was one.
    pub measured: Vec<Measured>,
    /// Changes worth making, the most important first.
    pub advice: Vec<Advice>,
}

/// A workload of the load that a survey may bring.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measured {
    pub workload: String,
    pub operations_per_s: f64,
    pub bytes_per_s: f64,
    pub mean_us: Option<f64>,
    pub p99_us: Option<f64>,
    /// True if clients wrote.
    pub writes: bool,
    /// Copies of each byte on the OSDs.
    pub copies: f64,
}

impl Survey {
    /// Judges what was answered. `measured`: rows of a load, or none.
    pub fn of(answers: &Answers, measured: Vec<Measured>) -> Survey {
        let cluster = Cluster::of(answers);
        let risk = Risk::of(&cluster, &measured);
        let time = time::kinds(&answers.operations, answers.from_ceph);
        let advice = advice::advice(&cluster, &risk, &time);
        Survey { format: FORMAT, version: VERSION, cluster, risk, time, measured, advice }
    }

    /// The survey for programs.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("a survey has only strings as keys") + "\n"
    }
}
