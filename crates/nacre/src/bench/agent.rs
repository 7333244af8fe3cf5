//! `nacre bench agent`.

use crate::cli::bench::BenchAgent;
use anyhow::{Context, Result, bail};
use load::agents::options::AgentOptions;
use load::agents::server::serve;
use std::path::Path;
use tokio::sync::watch;

/// Serves until a signal comes; returns the exit status.
pub fn run(options: BenchAgent) -> Result<u8> {
    let token = options.token_file.as_deref().map(read_token).transpose()?;
    for conf in &options.conf {
        std::fs::metadata(conf).with_context(|| format!("there is no configuration at {}", conf.display()))?;
    }
    let settings = AgentOptions {
        listen: options.listen,
        token,
        watch_only: options.watch_only,
        configurations: options.conf,
        s3_keys: options.s3_keys,
        s3_ca: options.s3_ca,
        program: super::PROGRAM.to_owned(),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let (asked, stop) = watch::channel(false);
        let interrupts = tokio::spawn(super::interrupts_saying(asked, "ending; once more ends at once")?);
        let told = |line: String| eprintln!("nacre bench agent: {line}");
        let served = serve(settings, told, stop).await;
        interrupts.abort();
        served?;
        Ok(0)
    })
}

/// The token in a file: one line.
pub fn read_token(path: &Path) -> Result<String> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read the token in {}", path.display()))?;
    let token = text.trim();
    if token.is_empty() || token.len() > 4096 || token.contains(['\n', '\r']) {
        bail!("{} does not hold a token: one line of at most 4096 bytes", path.display());
    }
    Ok(token.to_owned())
}
