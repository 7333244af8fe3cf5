//! Bytes on the OSDs' connections, divided by ports into those of clients and those of other OSDs. The kernel counts
//! them per connection and `ss` of iproute2 prints them; without `ss` these figures are missing.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};

use super::sources::Sources;

/// Bytes carried by the connections of all OSDs, by connection. The counts of a connection vanish with it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Traffic {
    #[serde(with = "pairs")]
    pub client: BTreeMap<Ends, Bytes>,
    #[serde(with = "pairs")]
    pub storage: BTreeMap<Ends, Bytes>,
}

/// Both ends of a connection, as `ss` prints them, the OSD's first.
pub type Ends = (String, String);

/// Bytes from the OSD's point of view.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bytes {
    pub received: u64,
    pub sent: u64,
}

/// Encodes a map as a list: JSON's keys are strings only.
mod pairs {
    use super::{Bytes, Ends};
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use std::collections::BTreeMap;

    pub fn serialize<S: Serializer>(map: &BTreeMap<Ends, Bytes>, out: S) -> Result<S::Ok, S::Error> {
        map.iter().collect::<Vec<_>>().serialize(out)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<Ends, Bytes>, D::Error> {
        Ok(Vec::<(Ends, Bytes)>::deserialize(from)?.into_iter().collect())
    }
}

impl Traffic {
    /// Reads the counts; `None` where `ss` is missing or fails.
    pub fn read(sources: &Sources) -> Option<Traffic> {
        if sources.public_ports.is_empty() {
            return None;
        }
        let mut command = Command::new("ss");
        command.args(["-tniHO", "state", "established"]).stdin(Stdio::null()).stderr(Stdio::null());
        let output = command.output().ok()?;
        output.status.success().then(|| Traffic::parse(&String::from_utf8_lossy(&output.stdout), sources))
    }

    fn parse(text: &str, sources: &Sources) -> Traffic {
        let mut traffic = Traffic::default();
        for line in text.lines() {
            // A line has two queue lengths, both ends, and properties of the connection.
            let mut words = line.split_whitespace().skip(2);
            let (Some(local), Some(peer)) = (words.next(), words.next()) else { continue };
            let Some(port) = local.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok()) else { continue };
            let side = if sources.public_ports.contains(&port) {
                &mut traffic.client
            } else if sources.cluster_ports.contains(&port) {
                &mut traffic.storage
            } else {
                continue;
            };
            let mut bytes = Bytes::default();
            for word in words {
                if let Some(number) = word.strip_prefix("bytes_received:") {
                    bytes.received = number.parse().unwrap_or(0);
                } else if let Some(number) = word.strip_prefix("bytes_acked:") {
                    bytes.sent = number.parse().unwrap_or(0);
                }
            }
            side.insert((local.to_owned(), peer.to_owned()), bytes);
        }
        traffic
    }
}

/// Bytes carried between two readings, into and out of the OSDs. A connection that began meanwhile began at zero; one
/// that ended meanwhile is missing.
pub fn between(before: &BTreeMap<Ends, Bytes>, after: &BTreeMap<Ends, Bytes>) -> Bytes {
    let mut sum = Bytes::default();
    for (ends, now) in after {
        let then = before.get(ends).copied().unwrap_or_default();
        sum.received += now.received.saturating_sub(then.received);
        sum.sent += now.sent.saturating_sub(then.sent);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sides_are_told_apart_by_the_osds_ports() {
        let sources = Sources { public_ports: [6800].into(), cluster_ports: [6801].into(), ..Sources::default() };
        let text = "0 0 127.0.0.1:6800 127.0.0.1:40000 bbr wscale:10,10 bytes_sent:9 bytes_acked:8 bytes_received:7\n\
                    0 0 [::1]:6801 [::1]:40001 cubic bytes_received:5\n\
                    0 0 127.0.0.1:40000 127.0.0.1:6800 bbr bytes_acked:7 bytes_received:8\n\
                    odd line\n";
        let traffic = Traffic::parse(text, &sources);
        let (client, storage) = (traffic.client.values().next(), traffic.storage.values().next());
        assert_eq!((client, storage), (Some(&Bytes { received: 7, sent: 8 }), Some(&Bytes { received: 5, sent: 0 })));
        assert_eq!((traffic.client.len(), traffic.storage.len()), (1, 1), "the other end of the first is a client's");
    }

    #[test]
    fn only_what_came_between_counts() {
        let ends = |port: &str| ("a:1".to_owned(), port.to_owned());
        let bytes = |received, sent| Bytes { received, sent };
        let before = BTreeMap::from([(ends("b:1"), bytes(10, 20)), (ends("b:2"), bytes(1000, 1000))]);
        let after = BTreeMap::from([(ends("b:1"), bytes(15, 27)), (ends("b:3"), bytes(1, 2))]);
        assert_eq!(between(&before, &after), bytes(6, 9));
    }
}
