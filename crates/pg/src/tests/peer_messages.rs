//! Bytes of what OSDs say to each other, which OSDs of another version must read.

use super::peer_samples;
use std::collections::BTreeMap;
use std::fmt::Write;
use types::PoolId;
use wire::Envelope;

/// A line per sample: its name, the header's numbers, front and data in hexadecimal.
const GOLDEN: &str = include_str!("peer_messages.golden");

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a string");
        text
    })
}

fn line(name: &str, envelope: &Envelope) -> String {
    let header = &envelope.header;
    assert!(envelope.middle.is_empty());
    let (front, data) = (hex(&envelope.front), hex(&envelope.data.to_vec()));
    let numbers = [header.kind, header.priority, header.version, header.compat_version, header.data_off];
    let numbers = numbers.map(|number| number.to_string()).join(" ");
    format!("{name}: {numbers}: {front}: {data}")
}

#[test]
fn every_message_is_written_as_ever() {
    let mut golden: BTreeMap<&str, &str> =
        GOLDEN.lines().map(|line| (line.split(": ").next().unwrap(), line)).collect();
    let mut missing = String::new();
    for (name, sample) in peer_samples::all(PoolId(4)) {
        let line = line(name, &sample);
        match golden.remove(name) {
            Some(known) => assert_eq!(line, known),
            None => writeln!(missing, "{line}").expect("a string"),
        }
    }
    assert_eq!(missing, "", "samples that are not recorded");
    assert_eq!(golden, BTreeMap::new(), "records without a sample");
}
