//! Iterations that agents carry out, and what they read of their machines.

use std::collections::BTreeMap;

use super::Run;
use crate::agents::crew::AgentCrew;
use crate::agents::links::{Agents, Link};
use crate::agents::protocol::{Begin, Samples};
use crate::crew::Crew;
use crate::environment;
use crate::iteration::{Iteration, Measured};
use crate::meter::ClusterMeter;
use crate::objects::PoolOfCluster;
use crate::s3::Bucket;
use crate::telemetry::Sample;
use crate::telemetry::figures::{Work, figures};
use crate::telemetry::hosts::{Reading, together};

/// Readings that agents took of their machines.
#[derive(Default)]
pub(super) struct Elsewhere {
    /// Readings at the begin and the end of the counted rounds; `None` if one is missing.
    readings: Option<(Vec<Reading>, Vec<Reading>)>,
    /// Lines of the record over time, by agent.
    pub records: Vec<(String, String)>,
}

impl Elsewhere {
    pub fn of(crew: &AgentCrew<'_>) -> Elsewhere {
        let pairs = || crew.agents().links.iter().zip(crew.members());
        let reading = |link: &Link, sample: &Sample| {
            let mut sample = sample.clone();
            if link.machine.watch_only {
                // A watch-only agent is no client.
                sample.own = None;
            }
            Reading { machine: link.machine.id.clone(), host: link.machine.host.clone(), sample }
        };
        let at = |which: fn(&Samples) -> Option<&Sample>| {
            pairs().map(|(link, member)| Some(reading(link, which(&member.samples)?))).collect::<Option<Vec<_>>>()
        };
        Elsewhere {
            readings: at(|samples| samples.before.as_ref()).zip(at(|samples| samples.after.as_ref())),
            records: pairs().map(|(link, member)| (link.name.clone(), member.record.clone())).collect(),
        }
    }

    /// Figures of all machines, including this one if daemons of the cluster run here.
    pub fn figures(&self, meter: &ClusterMeter, rounds: (u32, u32), work: Work) -> BTreeMap<String, Option<f64>> {
        let Some((mut before, mut after)) = self.readings.clone() else { return BTreeMap::new() };
        if !meter.sources().daemons.is_empty() {
            let machine = environment::machine_id();
            let here = |round: u32| {
                let sample = meter.at(round)?.clone();
                Some(Reading {
                    machine: machine.clone(),
                    host: "coordinator".into(),
                    sample: Sample { own: None, ..sample },
                })
            };
            let (Some(first), Some(last)) = (here(rounds.0), here(rounds.1)) else { return BTreeMap::new() };
            before.push(first);
            after.push(last);
        }
        match (together(&before), together(&after)) {
            (Some(mut before), Some(mut after)) if rounds.0 < rounds.1 => {
                // The coordinator asks all OSDs itself, those on other machines, too.
                let cache = |round: u32| meter.at(round).and_then(|sample| sample.cache);
                (before.cache, after.cache) = (cache(rounds.0), cache(rounds.1));
                figures(&before, &after, work)
            }
            _ => BTreeMap::new(),
        }
    }
}

impl Run<'_> {
    /// Has agents do an iteration. A bucket is made before and removed behind it, since no agent knows when the others
    /// have removed their objects.
    pub(super) async fn by_agents(
        &mut self,
        agents: &mut Agents,
        begin: Begin,
        runner: &Iteration<'_, PoolOfCluster>,
        meter: &mut ClusterMeter,
    ) -> (Measured, Elsewhere) {
        let bucket = runner.connect.bucket.as_ref();
        let made = match bucket {
            Some(site) => match Bucket::make_for_others(site).await {
                Ok(made) => made,
                Err(reason) => return (Measured::failed(reason), Elsewhere::default()),
            },
            None => false,
        };
        let measured = match AgentCrew::begin(agents, begin, runner.task.rounds).await {
            Ok(mut crew) => {
                let measured = runner.run_with(&mut crew, meter, self.observer, &mut self.interrupt).await;
                crew.end().await;
                (measured, Elsewhere::of(&crew))
            }
            Err(error) => (Measured::failed(error.to_string()), Elsewhere::default()),
        };
        if let Some(site) = bucket.filter(|_| made && runner.remove_objects)
            && let Err(reason) = Bucket::remove_made(site.clone()).await
        {
            self.note(format!("{}: {reason}", runner.what));
        }
        measured
    }
}
