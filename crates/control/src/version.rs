//! Names of this software, as operators' tools read them.

/// The release of Ceph whose interfaces these are.
pub const CEPH_RELEASE: &str = "16.2.15";

/// Name of that release, and what kind of one it is.
pub const CEPH_RELEASE_NAME: &str = "pacific";
pub const RELEASE_TYPE: &str = "stable";

/// This software's own version.
pub const OWN: &str = env!("CARGO_PKG_VERSION");

/// The fact about themselves by which daemons are told from those of a Ceph.
pub const OWN_KEY: &str = "nacre_version";

/// Stands where a Ceph has the commit that it was built from: "nacre" in ASCII, and zeros.
pub const COMMIT: &str = "6e61637265000000000000000000000000000000";

/// Returns the version as `ceph versions` shows it: in the form of a Ceph's, with this software's own behind it.
pub fn text() -> String {
    format!("ceph version {CEPH_RELEASE} ({COMMIT}) {CEPH_RELEASE_NAME} ({RELEASE_TYPE}), nacre {OWN}")
}

/// Returns the answer of a daemon that is told `version`.
pub fn value() -> serde_json::Value {
    serde_json::json!({"version": CEPH_RELEASE, "release": CEPH_RELEASE_NAME, "release_type": RELEASE_TYPE})
}

/// Returns what daemons say of their version among other facts about themselves.
pub fn metadata() -> [(&'static str, String); 4] {
    [
        ("ceph_version", text()),
        ("ceph_version_short", CEPH_RELEASE.to_owned()),
        ("ceph_release", CEPH_RELEASE_NAME.to_owned()),
        (OWN_KEY, OWN.to_owned()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tools take a version apart: the number between its first two words and a bracket, 40 hexadecimal digits, the
    /// name of the release.
    #[test]
    fn the_version_is_read_as_a_cephs() {
        let text = text();
        let words: Vec<&str> = text.split(' ').collect();
        let [ceph, version, number, commit, release, kind, own, own_number] = words[..] else { panic!("{text}") };
        assert_eq!((ceph, version, release, kind, own), ("ceph", "version", "pacific", "(stable),", "nacre"));
        assert_eq!(number.split('.').map(|part| part.parse::<u32>().unwrap()).collect::<Vec<_>>(), [16, 2, 15]);
        let commit = commit.strip_prefix('(').and_then(|commit| commit.strip_suffix(')')).unwrap();
        assert!(commit.len() == 40 && commit.bytes().all(|b| b.is_ascii_hexdigit()), "{commit}");
        assert_eq!(own_number, env!("CARGO_PKG_VERSION"));
    }
}
