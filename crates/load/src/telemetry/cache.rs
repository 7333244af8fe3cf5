//! Whether reads came from a cache or from a drive: what Ceph's OSDs count of their stores, asked for over the sockets
//! that they have for administrators.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::sources::Sources;

/// An answer longer than this is none of ours.
const ANSWER_BYTES_MAX: u32 = 64 << 20;
const PATIENCE: Duration = Duration::from_secs(5);

/// Running counts over all OSDs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Bytes of data that caches gave, and that had to be read.
    pub hit_bytes: u64,
    pub miss_bytes: u64,
}

impl Counts {
    /// Adds what other OSDs counted.
    pub fn add(&mut self, other: Counts) {
        self.hit_bytes += other.hit_bytes;
        self.miss_bytes += other.miss_bytes;
    }
}

/// `None` unless every OSD answers and counts.
pub fn read(sources: &Sources) -> Option<Counts> {
    let mut sum = None;
    for socket in &sources.admin_sockets {
        let dump = ask(socket, r#"{"prefix": "perf dump", "format": "json"}"#).ok()?;
        let store = &dump["bluestore"];
        let count = |name: &str| store[name].as_u64();
        let sum = sum.get_or_insert(Counts::default());
        sum.hit_bytes += count("bluestore_buffer_hit_bytes")?;
        sum.miss_bytes += count("bluestore_buffer_miss_bytes")?;
    }
    sum
}

/// Has every OSD that has such a socket forget what it keeps in memory. Returns how many did.
pub fn drop_caches(sources: &Sources) -> usize {
    let asked = sources.admin_sockets.iter().map(|socket| ask(socket, r#"{"prefix": "cache drop", "format": "json"}"#));
    asked.filter(Result::is_ok).count()
}

/// One request of Ceph's protocol for administrators: the command and a zero; back comes a length, big-endian, and the answer.
fn ask(socket: &Path, command: &str) -> std::io::Result<Value> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(command.as_bytes())?;
    stream.write_all(&[0])?;
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    #[allow(clippy::big_endian_bytes)]
    let length = u32::from_be_bytes(length);
    if length > ANSWER_BYTES_MAX {
        return Err(std::io::Error::other(format!("an answer of {length} bytes")));
    }
    let mut answer = Vec::new();
    stream.take(length.into()).read_to_end(&mut answer)?;
    serde_json::from_slice(&answer).map_err(std::io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    #[test]
    fn counts_of_all_osds_or_none() {
        let folder = std::env::temp_dir().join(format!("load-cache-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let mut servers = Vec::new();
        let mut sources = Sources::default();
        for (name, text) in [
            ("a", r#"{"bluestore": {"bluestore_buffer_hit_bytes": 7, "bluestore_buffer_miss_bytes": 5}}"#),
            ("b", r#"{"bluestore": {"bluestore_buffer_hit_bytes": 1, "bluestore_buffer_miss_bytes": 2}}"#),
        ] {
            let path = folder.join(name);
            let _ = std::fs::remove_file(&path);
            let listener = UnixListener::bind(&path).unwrap();
            sources.admin_sockets.push(path);
            servers.push(std::thread::spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                let mut asked = Vec::new();
                while asked.last() != Some(&0) {
                    let mut byte = [0];
                    stream.read_exact(&mut byte).unwrap();
                    asked.push(byte[0]);
                }
                assert!(asked.starts_with(br#"{"prefix": "perf dump""#));
                let mut answer = vec![0, 0, 0, u8::try_from(text.len()).unwrap()];
                answer.extend(text.as_bytes());
                stream.write_all(&answer).unwrap();
            }));
        }
        assert_eq!(read(&sources), Some(Counts { hit_bytes: 8, miss_bytes: 7 }));
        servers.into_iter().for_each(|server| server.join().unwrap());
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(read(&sources), None, "nobody answers any more");
        assert_eq!(read(&Sources::default()), None, "nobody to ask");
    }
}
