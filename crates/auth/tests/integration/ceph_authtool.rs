//! Keyrings that `ceph-authtool` writes and reads.

use auth::keyring::{Entry, Keyring, parse_entity};
use auth::{Key, KeyKind};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use types::Utime;

const TOOL: &str = "ceph-authtool";

/// Returns true if the tool is there. Without it the test is skipped, unless NACRE_REQUIRE_ORACLES=1 demands it.
fn have_tool() -> bool {
    let found = Command::new(TOOL).arg("--version").output().is_ok();
    assert!(found || std::env::var("NACRE_REQUIRE_ORACLES").as_deref() != Ok("1"), "{TOOL} is not installed");
    if !found {
        eprintln!("SKIPPED: {TOOL} is not installed");
    }
    found
}

/// A file of one test, removed with it.
struct TempFile(PathBuf);

impl TempFile {
    fn new(name: &str) -> TempFile {
        TempFile(std::env::temp_dir().join(format!("nacre-auth-{}-{name}", std::process::id())))
    }

    fn write(&self, text: &str) {
        std::fs::write(&self.0, text).unwrap();
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn run(args: &[&str]) -> Output {
    Command::new(TOOL).args(args).output().unwrap()
}

fn stdout(args: &[&str]) -> String {
    let output = run(args);
    assert!(output.status.success(), "{TOOL} {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

const CAPS: [&str; 9] = [
    "allow *",
    "",
    "allow r, allow w",
    "allow command \"osd blocklist\" with blocklistop=add",
    "allow rw pool='a b'",
    "profile rbd; allow class rbd # no comment",
    "back\\slash",
    "'quoted'",
    "allow rwx tag cephfs data=*",
];

#[test]
fn what_is_written_the_tool_reads() {
    if !have_tool() {
        return;
    }
    let mut ring = Keyring::default();
    for (i, pair) in CAPS.chunks(2).enumerate() {
        let key = Key::new(KeyKind::Aes, Utime { sec: 1_795_780_000, nsec: i as u32 }, &[i as u8; 16]).unwrap();
        let caps = ["mon", "osd"].iter().zip(pair).map(|(service, caps)| ((*service).into(), (*caps).into()));
        let name = parse_entity(&format!("client.{i}")).unwrap();
        ring.entries.insert(name, Entry { key, pending_key: None, caps: caps.collect() });
    }
    let file = TempFile::new("written");
    file.write(&ring.to_text());
    let listed = stdout(&["-l", file.path()]);
    for (name, entry) in &ring.entries {
        let name = name.to_string();
        assert!(listed.contains(&format!("[{name}]\n\tkey = {}\n", entry.key.to_text().as_str())), "{listed}");
        assert_eq!(stdout(&["-p", "-n", &name, file.path()]).trim(), entry.key.to_text().as_str());
        for (service, caps) in &entry.caps {
            let line = format!("\tcaps {service} = \"{}\"\n", caps.replace('"', "\\\""));
            assert!(listed.contains(&line), "{line} in\n{listed}");
        }
    }
}

#[test]
fn what_the_tool_writes_is_read() {
    if !have_tool() {
        return;
    }
    let file = TempFile::new("made");
    // With '#' and ';' in capabilities the tool does not read its own files.
    let caps: Vec<&str> = CAPS.iter().copied().filter(|caps| !caps.contains(['#', ';', '\\'])).collect();
    for (i, caps) in caps.iter().enumerate() {
        let name = format!("client.{i}");
        let mut args = vec![file.path(), "-n", &name, "--gen-key", "--cap", "mon", caps, "--cap", "osd", "allow r"];
        if i == 0 {
            args.insert(0, "-C");
        }
        stdout(&args);
    }
    let ring = Keyring::parse(Path::new(file.path()), &std::fs::read(file.path()).unwrap()).unwrap();
    assert_eq!(ring.entries.len(), caps.len());
    for (i, caps) in caps.iter().enumerate() {
        let name = format!("client.{i}");
        let entry = ring.find(&parse_entity(&name).unwrap()).unwrap();
        assert_eq!(entry.key.to_text().as_str(), stdout(&["-p", "-n", &name, file.path()]).trim());
        let expected = BTreeMap::from([("mon".into(), (*caps).into()), ("osd".into(), "allow r".into())]);
        assert_eq!(entry.caps, expected);
    }
}

#[test]
fn lines_mean_what_they_mean_to_the_tool() {
    if !have_tool() {
        return;
    }
    let file = TempFile::new("lines");
    let key = Key::new(KeyKind::Aes, Utime::ZERO, &[7; 16]).unwrap().to_text();
    let lines = [
        "caps mon = allow r # comment",
        "caps mon = allow r;comment",
        "caps mon = \"allow r ; x\" # c",
        "caps mon = 'allow command \"x\"'",
        "caps mon = \"allow command \\\"x\\\"\"",
        "caps_mon = allow r",
        "caps\tmon\t=\tallow r",
        "capsmon = allow r",
        "caps mon allow r",
        "caps mon = allow\\\n r",
        "caps mon = \"allow r\" x",
        "caps mon = \"allow r\" # x",
        "caps mon = \"allow r",
        "caps mon =",
        "caps mon = a\\;b",
        "caps mon = \"a\\#b\"",
        "caps mon = a\"b c",
        "caps mon = \"a\\\\b\"",
        "caps mon = a\\\\b",
        "caps mon = \"a\\nb\"",
        "caps mon = \" a \"",
        "caps mon = 'a\\'b'",
        "caps mon = x = y",
        "caps mon = [x]",
        "Caps Mon = allow r",
        "caps mon = a\ncaps mon = b",
        "foo = bar",
        "auid = 1",
        "; caps mon = x",
    ];
    for line in lines {
        let text = format!("[client.a] # x\n  key = {}\n{line}\n", key.as_str());
        file.write(&text);
        let output = run(&["-l", file.path()]);
        let theirs = output.status.success().then(|| {
            let listed = String::from_utf8(output.stdout).unwrap();
            let caps = listed.lines().find_map(|line| line.strip_prefix("\tcaps mon = \"")?.strip_suffix('"'));
            caps.map(|caps| caps.replace("\\\"", "\""))
        });
        let ours = Keyring::parse(Path::new("x"), text.as_bytes()).ok();
        let ours = ours.map(|ring| ring.entries.values().next().unwrap().caps.get("mon").cloned());
        assert_eq!(ours, theirs, "{line}");
    }
}
