//! The S3 gateway that `nacre up --s3-port` keeps running beside the cluster's daemons.

use crate::layout::Layout;
use crate::s3_commands::first_user;
use crate::s3_keys;
use anyhow::{Context, Result};
use client::{Cluster, Config};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tokio::process::{Child, Command};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// Wait before a gateway that ended is started again.
const AGAIN_AFTER: Duration = Duration::from_secs(2);
/// Time that a gateway has for requests under way when it is told to stop.
const STOP_WITHIN: Duration = Duration::from_secs(25);
/// Time that the first user may take to be made.
const USER_WITHIN: Duration = Duration::from_secs(60);

/// A gateway that is kept running.
pub struct S3Gateway {
    stop: oneshot::Sender<()>,
    keeper: JoinHandle<()>,
    /// Endpoint and keys, for people.
    pub says: String,
}

/// The command that runs a gateway.
struct Serve {
    program: PathBuf,
    conf: PathBuf,
    master_keys: PathBuf,
    log: PathBuf,
    address: SocketAddr,
}

impl S3Gateway {
    /// Makes the first user and the master key, if there are none, and starts a gateway. To be called on the process's
    /// main thread.
    pub async fn start(layout: &Layout, program: &Path, address: SocketAddr) -> Result<S3Gateway> {
        let made = async {
            let cluster = Cluster::connect(Config::from_conf(layout.conf())?).await?;
            first_user(&cluster).await
        };
        let made = tokio::time::timeout(USER_WITHIN, made).await;
        let (access, secret) = made.context("the first user of S3 took too long to be made")??;
        let master_keys = layout.s3_master_keys();
        s3_keys::make_if_absent(&master_keys)?;
        let (program, conf, log) = (program.to_owned(), layout.conf(), layout.log("s3"));
        let serve = Serve { program, conf, master_keys, log, address };
        let first = serve.spawn()?;
        let (stop, stopped) = oneshot::channel();
        let keeper = tokio::spawn(keep(serve, first, stopped));
        let says = format!("S3 at http://{address}\n  access key {access}\n  secret key {secret}\n");
        Ok(S3Gateway { stop, keeper, says })
    }

    /// Lets the requests that are under way end, and stops the gateway.
    pub async fn stop(self) {
        let _ = self.stop.send(());
        let _ = self.keeper.await;
    }
}

impl Serve {
    fn spawn(&self) -> Result<Child> {
        let log = File::options().create(true).append(true).open(&self.log);
        let log = log.with_context(|| format!("cannot write {}", self.log.display()))?;
        let mut command = Command::new(&self.program);
        command.args(["s3", "serve", "--listen", &self.address.to_string(), "--conf"]).arg(&self.conf);
        command.arg("--master-key").arg(&self.master_keys);
        command.args(["--supervised-by", &std::process::id().to_string()]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).kill_on_drop(true);
        command.spawn().context("cannot start the S3 gateway")
    }
}

async fn keep(serve: Serve, mut child: Child, mut stopped: oneshot::Receiver<()>) {
    loop {
        tokio::select! {
            _ = &mut stopped => break,
            ended = child.wait() => {
                tracing::warn!("the S3 gateway ended ({ended:?}); it is started again");
                tokio::select! {
                    _ = &mut stopped => return,
                    () = tokio::time::sleep(AGAIN_AFTER) => {}
                }
                match serve.spawn() {
                    Ok(started) => child = started,
                    Err(error) => {
                        tracing::error!("{error:#}");
                        return;
                    }
                }
            }
        }
    }
    if let Some(pid) = child.id().and_then(|pid| Pid::from_raw(pid as i32)) {
        let _ = kill_process(pid, Signal::TERM);
    }
    if tokio::time::timeout(STOP_WITHIN, child.wait()).await.is_err() {
        let _ = child.kill().await;
    }
}
