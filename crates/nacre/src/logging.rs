//! Where log lines go.

use std::fs::File;
use std::io::IsTerminal;
use std::path::Path;
use std::sync::OnceLock;
use tracing::{Level, Metadata, Subscriber};
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt as _;
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
            without_keys(builder.finish()).init();
        }
        None => {
            let builder = builder.with_ansi(std::io::stderr().is_terminal()).with_writer(std::io::stderr);
            let builder = builder.with_filter_reloading();
            keep(text, builder.reload_handle());
            without_keys(builder.finish()).init();
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

/// False for what the library of S3 says in detail: that shows headers with keys of clients, and signatures that they
/// have not sent. No filter brings it back.
fn shows_no_keys(metadata: &Metadata<'_>) -> bool {
    *metadata.level() <= Level::INFO || metadata.target().split("::").next() != Some("s3s")
}

fn without_keys<S>(subscriber: S) -> impl Subscriber + Send + Sync + 'static
where
    S: Subscriber + for<'a> LookupSpan<'a> + Send + Sync + 'static,
{
    subscriber.with(filter_fn(shows_no_keys))
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Result, Write};
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Said(Arc<Mutex<Vec<u8>>>);

    impl Write for Said {
        fn write(&mut self, bytes: &[u8]) -> Result<usize> {
            self.0.lock().expect("nobody panicked").extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> Result<()> {
            Ok(())
        }
    }

    #[test]
    fn keys_of_clients_stay_out_of_the_log() {
        for filter in ["trace", "debug", "s3s=debug", "s3s::ops::signature=trace,debug"] {
            let said = Said::default();
            let writer = said.clone();
            let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(move || writer.clone());
            tracing::subscriber::with_default(without_keys(builder.finish()), || {
                tracing::debug!(target: "s3s::ops::signature", "a key");
                tracing::trace!(target: "s3s", "another key");
                tracing::info!(target: "s3s::ops", "a word");
                tracing::debug!(target: "s3::objects", "a detail");
            });
            let said = String::from_utf8(said.0.lock().expect("nobody panicked").clone()).expect("text");
            assert!(!said.contains("key") && said.contains("a word"), "{filter}: {said}");
            assert_eq!(said.contains("a detail"), filter != "s3s=debug", "{filter}: {said}");
        }
    }
}
