//! `nacre status`: a page about a cluster.

use crate::cli;
use crate::cli::Login;
use crate::connection::connect;
use crate::health::{Health, json_command, pool_table};
use crate::layout::Layout;
use crate::process::{daemon_pid, supervisor_pid};
use crate::state_file;
use crate::worker_keeper::worker_pid;
use anyhow::Result;
use serde_json::{Value, json};
use std::time::Duration;

/// How long an answer may take before it counts as none.
const PATIENCE: Duration = Duration::from_secs(10);

/// Prints the page; the exit status is 0 if the cluster answered.
pub fn run(options: &cli::Status) -> Result<u8> {
    let layout = Layout::new(&options.dir.dir)?;
    let state = state_file::require(&layout)?;
    let daemons = state.daemons();
    let pid = |name: &String| daemon_pid(&layout, name).map(|pid| pid.as_raw_nonzero().get());
    let stopped: Vec<&str> = daemons.iter().filter(|name| pid(name).is_none()).map(String::as_str).collect();
    let running = stopped.len() < daemons.len();
    let mon_runs = state.mon_ids().any(|id| pid(&format!("mon.{id}")).is_some());
    let answer: Result<(Value, Value)> = if running && !mon_runs {
        Err(anyhow::anyhow!("no monitor runs"))
    } else if running {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let ask = async {
                let cluster = connect(&layout.conf(), &Login::default()).await?;
                let status = json_command(&cluster, json!({"prefix": "status"})).await?;
                let df = json_command(&cluster, json!({"prefix": "df"})).await?;
                Ok((status, df))
            };
            let late = |_| Err(anyhow::anyhow!("the monitor does not answer within {} s", PATIENCE.as_secs()));
            tokio::time::timeout(PATIENCE, ask).await.unwrap_or_else(late)
        })
    } else {
        Err(anyhow::anyhow!("not running"))
    };
    let ok = answer.is_ok();
    if options.json {
        let daemons: Vec<Value> = daemons.iter().map(|name| json!({"name": name, "pid": pid(name)})).collect();
        let supervisor = supervisor_pid(&layout).map(|pid| pid.as_raw_nonzero().get());
        let worker = worker_pid(&layout).map(|pid| pid.as_raw_nonzero().get());
        let (status, df, error) = match answer {
            Ok((status, df)) => (status, df, Value::Null),
            Err(error) => (Value::Null, Value::Null, json!(format!("{error:#}"))),
        };
        let page = json!({
            "dir": layout.dir(), "fsid": state.fsid, "running": running, "answers": ok, "supervisor_pid": supervisor,
            "daemons": daemons, "worker_pid": worker, "health": status.pointer("/health/status"), "status": status, "df": df, "error": error,
        });
        println!("{}", serde_json::to_string_pretty(&page)?);
        return Ok(u8::from(!ok));
    }
    let dir = layout.dir().display();
    match answer {
        Ok((status, df)) => {
            print!("{}", Health::from_status(&status).page(&state.fsid));
            if !stopped.is_empty() {
                println!("stopped  {} (no process; logs are in {})", stopped.join(", "), layout.log_dir().display());
            }
            if state.engine.is_nacre() && worker_pid(&layout).is_none() {
                println!(
                    "worker   does not run: tasks about block images wait (logs are in {})",
                    layout.log_dir().display()
                );
            }
            let table = pool_table(&df, crate::pages::width());
            if !table.is_empty() {
                print!("\n{table}");
            }
        }
        Err(_) if !running => {
            println!("the cluster in {dir} is stopped; start it with 'nacre up --dir {dir}'");
        }
        Err(error) => {
            println!("the cluster in {dir} does not answer: {error:#}");
            if !stopped.is_empty() {
                println!("not running: {} (logs are in {})", stopped.join(", "), layout.log_dir().display());
            }
        }
    }
    Ok(u8::from(!ok))
}
