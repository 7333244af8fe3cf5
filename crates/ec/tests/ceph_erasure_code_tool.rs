//! Shards and lengths against Ceph's own plugins, driven by `ceph-erasure-code-tool`.

use ec::{Code, Profile, ShardSet, Technique};
use std::path::PathBuf;
use std::process::Command;

const TOOL: &str = "ceph-erasure-code-tool";

/// True if the tool is installed. Without it the test is skipped; it fails if NACRE_REQUIRE_ORACLES=1.
fn have_tool() -> bool {
    let found = Command::new(TOOL).output().is_ok();
    assert!(found || std::env::var("NACRE_REQUIRE_ORACLES").as_deref() != Ok("1"), "{TOOL} is not installed");
    if !found {
        eprintln!("SKIPPED: {TOOL} is not installed");
    }
    found
}

fn tool(args: &[&str]) -> String {
    let output = Command::new(TOOL).args(args).output().unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{TOOL} {args:?}: {stdout}{stderr}");
    stdout.into_owned()
}

struct TempDir(PathBuf);

impl TempDir {
    fn new(name: &str) -> TempDir {
        let path = std::env::temp_dir().join(format!("nacre-ec-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        TempDir(path)
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn profile_text(technique: Technique, k: usize, m: usize) -> String {
    format!("plugin={},technique={},k={k},m={m}", technique.plugin(), technique.name())
}

fn profile_of(text: &str) -> Profile {
    let settings = text.split(',').map(|word| word.split_once('=').unwrap());
    Profile::from_settings(settings.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()).unwrap()
}

fn object(bytes: usize) -> Vec<u8> {
    (0..bytes as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 11) as u8).collect()
}

/// Our shards of an object: stripe by stripe, the last one filled up with zeros.
fn our_shards(code: &Code, unit: usize, object: &[u8]) -> Vec<Vec<u8>> {
    let mut shards = vec![Vec::new(); code.shards().len()];
    for stripe in object.chunks(unit * code.k()) {
        let mut stripe = stripe.to_vec();
        stripe.resize(unit * code.k(), 0);
        let data: Vec<&[u8]> = stripe.chunks(unit).collect();
        let mut parity = vec![vec![0; unit]; code.m()];
        code.encode(&data, &mut parity.iter_mut().map(Vec::as_mut_slice).collect::<Vec<_>>()).unwrap();
        for (shard, bytes) in shards.iter_mut().zip(data.into_iter().chain(parity.iter().map(Vec::as_slice))) {
            shard.extend_from_slice(bytes);
        }
    }
    shards
}

/// Encodes with both and compares all shards.
fn check_encoding(technique: Technique, k: usize, m: usize) {
    const UNIT: usize = 256;
    let text = profile_text(technique, k, m);
    let dir = TempDir::new(&format!("{}-{}-{k}-{m}", technique.plugin(), technique.name()));
    let file = dir.0.join("object");
    let bytes = object(2 * UNIT * k - 100);
    std::fs::write(&file, &bytes).unwrap();
    let code = profile_of(&text).code();
    let file = file.to_str().unwrap();
    tool(&["encode", &text, &UNIT.to_string(), &code.shards().to_string(), file]);
    for (shard, ours) in our_shards(&code, UNIT, &bytes).iter().enumerate() {
        let theirs = std::fs::read(format!("{file}.{shard}")).unwrap();
        assert!(theirs == *ours, "{code}: shard {shard} ({} and {} bytes)", theirs.len(), ours.len());
    }
}

#[test]
fn shards_are_those_of_ceph() {
    if !have_tool() {
        return;
    }
    // A run of the tool takes a tenth of a second.
    let small = [2, 3, 4, 8].into_iter().flat_map(|k| (1..=4).map(move |m| (k, m)));
    let large = [(11, 1), (7, 5), (12, 4), (17, 3), (21, 4), (32, 3), (48, 16)];
    for (k, m) in small.chain(large) {
        for technique in Technique::ALL.into_iter().filter(|technique| technique.check_shard_counts(k, m).is_ok()) {
            check_encoding(technique, k, m);
        }
    }
}

#[test]
fn ceph_decodes_what_we_encode() {
    if !have_tool() {
        return;
    }
    const UNIT: usize = 4096;
    for (technique, k, m) in [
        (Technique::JerasureVandermonde, 4, 2),
        (Technique::JerasureRaid6, 6, 2),
        (Technique::IsaVandermonde, 8, 3),
        (Technique::IsaCauchy, 5, 4),
    ] {
        let text = profile_text(technique, k, m);
        let dir = TempDir::new(&format!("decode-{}-{}", technique.plugin(), technique.name()));
        let file = dir.0.join("object");
        let bytes = object(3 * UNIT * k);
        let code = Code::new(technique, k, m).unwrap();
        // The first m shards are lost.
        let lost = ShardSet::first(m);
        for shard in code.shards().without(lost).iter() {
            let path = format!("{}.{shard}", file.display());
            std::fs::write(path, &our_shards(&code, UNIT, &bytes)[shard]).unwrap();
        }
        // The tool decodes from the shards that it is told to want.
        let left = code.shards().without(lost).to_string();
        tool(&["decode", &text, &UNIT.to_string(), &left, file.to_str().unwrap()]);
        assert!(std::fs::read(&file).unwrap() == bytes, "{code}");
    }
}

#[test]
fn shard_lengths_are_those_of_ceph() {
    if !have_tool() {
        return;
    }
    let mut texts: Vec<String> = [(2, 1), (3, 2), (7, 3)]
        .into_iter()
        .flat_map(|(k, m)| Technique::ALL.map(|technique| (technique, k, m)))
        .filter(|&(technique, k, m)| technique.check_shard_counts(k, m).is_ok())
        .map(|(technique, k, m)| profile_text(technique, k, m))
        .collect();
    texts.push("plugin=isa".to_owned());
    texts.push("plugin=jerasure,technique=reed_sol_r6_op,k=3,m=2,jerasure-per-chunk-alignment=true".to_owned());
    texts.push("plugin=jerasure,technique=reed_sol_van".to_owned());
    texts.push("plugin=jerasure,technique=reed_sol_van,k=3,m=2,jerasure-per-chunk-alignment=true".to_owned());
    for text in texts {
        let profile = profile_of(&text);
        let shown = tool(&["validate-profile", &text]);
        let counts = format!(
            "chunk_count: {}\ndata_chunk_count: {}\ncoding_chunk_count: {}\n",
            profile.k() + profile.m(),
            profile.k(),
            profile.m()
        );
        assert_eq!(shown, counts, "{text}");
        // Ceph asserts that a shard is not shorter than the alignment per chunk.
        for object_bytes in [900, 4096, 4097, 12288, 65536, 1_000_003] {
            let theirs = tool(&["calc-chunk-size", &text, &object_bytes.to_string()]);
            assert_eq!(
                profile.shard_bytes_for(object_bytes).to_string(),
                theirs.trim(),
                "{text}, {object_bytes} bytes"
            );
        }
    }
}
