//! Where log lines go.

use std::fs::File;
use std::io::IsTerminal;
use std::path::Path;
use std::sync::OnceLock;
use tracing_subscriber::{EnvFilter, reload};

/// The filter that the process began with, and how another one comes into force.
struct Reload {
    began_with: String,
    set: Box<dyn Fn(EnvFilter) + Send + Sync>,
}

static RELOAD: OnceLock<Reload> = OnceLock::new();

/// Logs to standard error, or to `file` (appending); `filter` is the flag or environment variable, `default` a level.
///
/// Errors: a filter that cannot be read, a file that cannot be opened.
pub fn start(filter: Option<&str>, default: &str, file: Option<&Path>) -> anyhow::Result<()> {
    let text = filter.unwrap_or(default);
    let filter = EnvFilter::try_new(text)
        .map_err(|e| anyhow::anyhow!("'{text}' is not a log filter ({e}); write for example --log debug"))?;
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_target(false);
    match file {
        Some(path) => {
            let file = File::options().create(true).append(true).open(path)?;
            let builder = builder.with_ansi(false).with_writer(file).with_filter_reloading();
            keep(text, builder.reload_handle());
            builder.init();
        }
        None => {
            let builder = builder.with_ansi(std::io::stderr().is_terminal()).with_writer(std::io::stderr);
            let builder = builder.with_filter_reloading();
            keep(text, builder.reload_handle());
            builder.init();
        }
    }
    // A panic must reach the log even where nobody reads standard error.
    if file.is_some() {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            tracing::error!("panic: {info}");
            usual(info);
        }));
    }
    Ok(())
}

fn keep<S: 'static>(text: &str, handle: reload::Handle<EnvFilter, S>) {
    // A log that is gone needs no filter.
    let set = Box::new(move |filter| drop(handle.reload(filter)));
    drop(RELOAD.set(Reload { began_with: text.to_owned(), set }));
}

/// Adds `filter` to the filter that the process began with. If both name a part of the program, `filter` wins. An empty
/// one restores the first filter.
pub fn refine(filter: &str) {
    let Some(Reload { began_with, set }) = RELOAD.get() else { return };
    match EnvFilter::try_new(format!("{began_with},{filter}")) {
        Ok(all) => set(all),
        Err(e) => tracing::warn!("'{filter}' is no log filter: {e}"),
    }
    tracing::info!("levels of the log: {began_with} {filter}");
}
