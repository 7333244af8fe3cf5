//! Levels of a daemon's log, by Ceph's options.

use crate::Settings;

/// Ceph's options, each with the parts of Nacre whose lines it is about.
const PARTS: &[(&str, &[&str])] = &[
    ("debug_bluestore", &["store"]),
    ("debug_mon", &["mon"]),
    ("debug_ms", &["wire", "reactor"]),
    ("debug_osd", &["osd", "pg"]),
    ("debug_paxos", &["raft"]),
];

/// Names of the options.
pub fn names() -> impl Iterator<Item = &'static str> {
    PARTS.iter().map(|(name, _)| *name)
}

/// Returns the filter that the options ask for which somebody has set: `osd=debug,pg=debug`. It is empty if there are
/// none.
pub fn filter(settings: &Settings) -> String {
    let set = PARTS.iter().filter(|(name, _)| settings.is_set(name));
    let parts = set.flat_map(|(name, parts)| {
        let text = settings.find(name).map(|option| settings.get(option)).unwrap_or_default();
        let level = level(&text);
        parts.iter().map(move |part| format!("{part}={level}"))
    });
    parts.collect::<Vec<_>>().join(",")
}

/// The level of lines for a Ceph's number: `5/5` has one for the file, and one for lines that only a crash shows.
fn level(text: &str) -> &'static str {
    let number = text.split('/').next().unwrap_or_default().trim().parse::<i64>().unwrap_or_default();
    match number {
        ..=0 => "warn",
        1..=9 => "info",
        10..=19 => "debug",
        _ => "trace",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_options_that_somebody_has_set_change_the_log() {
        let mut settings = Settings::new("osd.3", names());
        assert_eq!(filter(&settings), "");
        settings.set("debug_osd", "10").unwrap();
        assert_eq!(filter(&settings), "osd=debug,pg=debug");
        settings.set_from_monitors([("debug_ms", "0/5"), ("debug_osd", "1/5")]);
        assert_eq!(filter(&settings), "wire=warn,reactor=warn,osd=debug,pg=debug");
        settings.unset("debug_osd").unwrap();
        settings.set_from_monitors([("debug_osd", "20/20"), ("debug_mon", "1/5")]);
        assert_eq!(filter(&settings), "mon=info,osd=trace,pg=trace");
    }
}
