//! Bytes of what OSDs say to each other, which OSDs of another version must read.

use super::peer_samples;
use crate::messages::coded::{OmapAfter, ShardRead, ShardReadReply, StrayRead};
use crate::messages::route::{self, Addressee};
use crate::messages::table::Scope;
use crate::messages::{PeerKind, PeerMessage, kind_name};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use types::{EVersion, PoolId};
use wire::{Envelope, Target};

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

fn sealed(sample: PeerMessage) -> Envelope {
    sample.seal(3, Target::default())
}

#[test]
fn every_message_is_written_as_ever() {
    let mut golden: BTreeMap<&str, &str> =
        GOLDEN.lines().map(|line| (line.split(": ").next().unwrap(), line)).collect();
    let mut missing = String::new();
    for (name, sample) in peer_samples::all(PoolId(4)) {
        let line = line(name, &sealed(sample));
        match golden.remove(name) {
            Some(known) => assert_eq!(line, known),
            None => writeln!(missing, "{line}").expect("a string"),
        }
    }
    assert_eq!(missing, "", "samples that are not recorded");
    assert_eq!(golden, BTreeMap::new(), "records without a sample");
}

/// Former versions of messages end before what was added since.
#[test]
fn former_messages_are_read() {
    const FORMER: &str = include_str!("peer_messages_former.golden");
    let former: BTreeMap<&str, Vec<u8>> = FORMER
        .lines()
        .map(|line| {
            let (name, rest) = line.split_once(": ").expect("a name");
            (name, unhex(rest.split(": ").nth(1).expect("a front")))
        })
        .collect();
    let mut read = 0;
    for (name, sample) in peer_samples::all(PoolId(4)) {
        let Some(front) = former.get(name) else { continue };
        let envelope = Envelope { front: front.clone().into(), ..sealed(sample.clone()) };
        let expected = match sample {
            PeerMessage::ShardRead(read) => PeerMessage::ShardRead(ShardRead { omap_after: OmapAfter(None), ..read }),
            PeerMessage::StrayRead(read) => PeerMessage::StrayRead(StrayRead { omap_after: OmapAfter(None), ..read }),
            PeerMessage::ShardReadReply(reply) => PeerMessage::ShardReadReply(ShardReadReply { omap: None, ..reply }),
            PeerMessage::ScrubGot(mut got) => {
                got.map.objects.iter_mut().for_each(|scan| scan.fingerprints = None);
                PeerMessage::ScrubGot(got)
            }
            PeerMessage::ScrubDone(mut done) => {
                done.mark.large_omaps = 0;
                done.mark.cursor.iter_mut().for_each(|cursor| cursor.large_omaps = 0);
                PeerMessage::ScrubDone(done)
            }
            PeerMessage::RepOp(mut op) => {
                op.info.answered = EVersion::ZERO;
                PeerMessage::RepOp(op)
            }
            PeerMessage::PgNotify(mut told) => {
                let infos = told.groups.iter_mut().filter_map(|(_, state)| state.info.as_mut());
                infos.for_each(|info| info.answered = EVersion::ZERO);
                PeerMessage::PgNotify(told)
            }
            other => other,
        };
        assert_eq!(expected.kind().open(&envelope), Ok(expected), "{name}");
        read += 1;
    }
    assert_eq!(read, former.len());
}

fn unhex(text: &str) -> Vec<u8> {
    let byte = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).expect("hexadecimal digits");
    (0..text.len()).step_by(2).map(byte).collect()
}

#[test]
fn every_message_of_the_table_has_a_sample_and_reads_back() {
    let mut kinds = BTreeSet::new();
    for (name, sample) in peer_samples::all(PoolId(4)) {
        let kind = sample.kind();
        kinds.insert(kind);
        assert!(
            name.starts_with(kind.name()) || kind == PeerKind::PgNotify || kind == PeerKind::PgLogEntries,
            "{name}"
        );
        let envelope = sealed(sample.clone());
        assert_eq!(PeerKind::of(envelope.header.kind), Some(kind));
        let back = kind.open(&envelope).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(line(name, &sealed(back)), line(name, &envelope));
        let shorter = Envelope { front: envelope.front.slice(..envelope.front.len() - 1), ..envelope };
        assert!(kind.open(&shorter).is_err(), "{name}");
    }
    assert_eq!(kinds, PeerKind::ALL.iter().copied().collect());
}

#[test]
fn messages_about_a_group_begin_with_it() {
    for (name, sample) in peer_samples::all(PoolId(4)) {
        let (kind, envelope) = (sample.kind(), sealed(sample));
        let addressee = route::of_peer_message(kind, &envelope).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(addressee == Addressee::Group(peer_samples::PG), kind.scope() == Scope::Group, "{name}");
    }
}

/// A field that names objects and stays as it came would make the two differ.
#[test]
fn objects_of_another_shard_get_the_names_that_they_have_here() {
    let (theirs, ours) = (PoolId(4).of_shard(2), PoolId(4).of_shard(0));
    let mut renamed = 0;
    for ((name, came), (_, here)) in peer_samples::all(theirs).into_iter().zip(peer_samples::all(ours)) {
        let named = came != here;
        let came = came.renamed_to(ours);
        if here.kind().scope() == Scope::Group {
            renamed += u32::from(named);
            assert_eq!(came, here, "{name}");
        }
    }
    assert_eq!(renamed, 20, "samples that name objects");
}

#[test]
fn names_for_logs_are_told_of_all_messages() {
    assert_eq!(kind_name(0x4e20), "rep_op");
    assert_eq!(kind_name(wire::nacre::kind::LONG_PART), "long_part");
    assert_eq!(kind_name(50), "mon_command");
    let names: BTreeSet<&str> = PeerKind::ALL.iter().map(|kind| kind.name()).collect();
    assert_eq!(names.len(), PeerKind::ALL.len(), "two have one name");
}
