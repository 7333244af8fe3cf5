//! Options of an agent, and the means of its machine.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use bench::plan::S3Gateway;

use crate::s3::{BucketSite, GatewayError};

/// Options of an agent.
#[derive(Clone, Debug)]
pub struct AgentOptions {
    pub listen: SocketAddr,
    /// Secret that coordinators must know. Without one, the agent serves only its own machine.
    pub token: Option<String>,
    /// The agent carries no load and only reads this machine's counters.
    pub watch_only: bool,
    /// Paths of configurations of clusters with daemons on this machine.
    pub configurations: Vec<PathBuf>,
    /// File with the keys for S3 gateways, in the form of AWS's `credentials`. Without one, the environment has them.
    pub s3_keys: Option<PathBuf>,
    /// File in PEM with the authorities whose certificates count for S3 gateways. Without one, the system's.
    pub s3_ca: Option<PathBuf>,
    /// The program's name and version.
    pub program: String,
}

impl AgentOptions {
    /// A bucket of a gateway that a plan names, with this machine's own keys and authorities: a coordinator tells the
    /// paths of neither.
    ///
    /// Errors: the reason, in words, why the gateway cannot be used.
    pub(super) fn site(&self, gateway: &S3Gateway, bucket: &str, timeout: Duration) -> Result<BucketSite, String> {
        let text = |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string());
        let gateway = S3Gateway { keys: text(&self.s3_keys), ca: text(&self.s3_ca), ..gateway.clone() };
        BucketSite::new(&gateway, bucket, timeout).map_err(|error| match error {
            GatewayError::NotSet => format!("{error}: give the agent --s3-keys"),
            error => error.to_string(),
        })
    }
}
