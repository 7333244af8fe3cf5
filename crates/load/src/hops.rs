//! Histories of operations that the OSDs of a cluster keep.

use bench::hops::{HopsError, OpHops, kept_by_ceph, kept_by_nacre};
use client::Cluster;
use serde_json::Value;
use std::time::Duration;
use types::OsdId;

/// An OSD that does not answer within this time is left out.
const PATIENCE: Duration = Duration::from_secs(5);

/// Histories gathered from the OSDs.
#[derive(Clone, Debug, Default)]
pub struct Gathered {
    pub ops: Vec<OpHops>,
    /// The OSDs keep Ceph's history only: its slowest operations, with the names of its events.
    pub from_ceph: bool,
    /// OSDs that answered, each with its latest sampling rate (one in so many operations), where it tells one.
    pub osds: Vec<(OsdId, Option<u64>)>,
    /// OSDs that gave nothing, each with the reason.
    pub silent: Vec<(OsdId, String)>,
}

/// The reason why one OSD gave nothing.
#[derive(Debug, thiserror::Error)]
enum Silence {
    #[error("no answer within {} s", PATIENCE.as_secs())]
    TimedOut,
    #[error(transparent)]
    Client(#[from] client::Error),
    #[error("{0}")]
    Refused(String),
    #[error("its answer is no JSON")]
    Json(#[from] serde_json::Error),
    #[error(transparent)]
    Hops(#[from] HopsError),
}

/// Asks every OSD that is up, or only the OSD `only`.
///
/// Errors: the monitors do not say which OSDs are up.
pub async fn gather(cluster: &Cluster, only: Option<OsdId>) -> Result<Gathered, client::Error> {
    let osds = match only {
        Some(osd) => vec![osd],
        None => cluster.up_osds().await?,
    };
    let mut gathered = Gathered::default();
    let mut asked = tokio::task::JoinSet::new();
    for osd in osds {
        let cluster = cluster.clone();
        asked.spawn(async move { (osd, ask(&cluster, osd).await) });
    }
    let mut answers = asked.join_all().await;
    answers.sort_by_key(|(osd, _)| *osd);
    for (osd, answer) in answers {
        match answer {
            Ok(Answer { ops, kept_in, ceph }) => {
                gathered.ops.extend(ops);
                gathered.from_ceph |= ceph;
                gathered.osds.push((osd, kept_in));
            }
            Err(silence) => gathered.silent.push((osd, silence.to_string())),
        }
    }
    Ok(gathered)
}

struct Answer {
    ops: Vec<OpHops>,
    kept_in: Option<u64>,
    ceph: bool,
}

async fn ask(cluster: &Cluster, osd: OsdId) -> Result<Answer, Silence> {
    match tell(cluster, osd, "dump_op_hops").await {
        Ok(dump) => Ok(Answer { ops: kept_by_nacre(&dump)?, kept_in: dump["one_op_kept_in"].as_u64(), ceph: false }),
        Err(Silence::Refused(_)) => {
            // An OSD of Ceph refuses our command. Ceph's second such command, by duration, tells the same operations in
            // another order.
            let ops = kept_by_ceph(osd.0, &tell(cluster, osd, "dump_historic_ops").await?)?;
            Ok(Answer { ops, kept_in: None, ceph: true })
        }
        Err(silence) => Err(silence),
    }
}

async fn tell(cluster: &Cluster, osd: OsdId, prefix: &str) -> Result<Value, Silence> {
    let command = serde_json::json!({ "prefix": prefix, "format": "json" }).to_string();
    let answer = tokio::time::timeout(PATIENCE, cluster.osd_command(osd, &command)).await;
    let reply = answer.map_err(|_| Silence::TimedOut)??;
    if reply.result < 0 {
        return Err(Silence::Refused(reply.status));
    }
    Ok(serde_json::from_slice(&reply.output)?)
}
