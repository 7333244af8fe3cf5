//! Where log lines go.

use std::fs::File;
use std::io::IsTerminal;
use std::path::Path;
use tracing_subscriber::EnvFilter;

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
            builder.with_ansi(false).with_writer(file).init();
        }
        None => builder.with_ansi(std::io::stderr().is_terminal()).with_writer(std::io::stderr).init(),
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
