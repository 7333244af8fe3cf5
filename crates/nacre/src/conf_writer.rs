//! The configuration files that `nacre up` leaves for daemons and clients.

use crate::layout::Layout;
use crate::state_file::{ClusterState, Engine, mon_id};
use anyhow::{Context, Result};
use std::fmt::Write;
use std::io::Read;
use std::net::SocketAddr;
use types::Utime;

/// Memory an OSD started by `nacre up` may use.
const OSD_MEMORY_BYTES: u64 = 112 << 20;

/// Options by which all connections of a cluster, and of its clients, are encrypted.
pub fn secure_modes() -> impl Iterator<Item = String> {
    let pairs = ["cluster", "service", "client", "mon cluster", "mon service", "mon client"];
    pairs.into_iter().map(|pair| format!("ms {pair} mode = secure"))
}

/// The text of `ceph.conf`, by engine.
pub fn ceph_conf(layout: &Layout, state: &ClusterState) -> String {
    match state.engine {
        Engine::Nacre => nacre_conf(layout, state),
        Engine::Ceph => crate::ceph_engine::ceph_conf(layout, state),
    }
}

/// For Nacre's daemons. Ceph's clients read the first section; the daemons read all.
fn nacre_conf(layout: &Layout, state: &ClusterState) -> String {
    let mon_addr = |index: u32| SocketAddr::new(state.bind, state.mon_port(index));
    let mon_host: Vec<String> = (0..state.mons).map(|index| format!("[v2:{}/0]", mon_addr(index))).collect();
    let path = |p: std::path::PathBuf| quoted(&p.display().to_string());
    let mut text = String::new();
    let mut line = |s: String| writeln!(text, "{s}").expect("a string takes any text");
    line("# Written by 'nacre up'; written anew at each start.".into());
    line("[global]".into());
    line(format!("fsid = {}", state.fsid));
    line(format!("mon host = {}", mon_host.join(",")));
    let ids: Vec<String> = state.mon_ids().collect();
    line(format!("mon initial members = {}", ids.join(",")));
    let method = match (state.cephx, state.offers_cephx) {
        (true, _) => "cephx",
        (false, true) => "cephx, none",
        (false, false) => "none",
    };
    for side in ["cluster", "service", "client"] {
        line(format!("auth {side} required = {method}"));
    }
    if state.secure {
        secure_modes().for_each(&mut line);
    }
    if !state.has_keys() {
        // Ceph's gateway (radosgw) insists on secure mode unless told otherwise; authentication `none` has no such
        // mode.
        line("ms mon client mode = crc".into());
        line(format!("keyring = {}", path(layout.keyring())));
    }
    // The daemons' admin sockets lie there. The names tell daemons from clients, which make sockets, too.
    line(format!("run dir = {}", path(layout.run_dir())));
    // Ceph's clients leave a monitor that is silent for so long; without these for 30 s, asked every 10 s.
    line("mon client ping interval = 2".into());
    line("mon client ping timeout = 5".into());
    if state.has_keys() {
        // Daemons have keyrings of their own.
        line(String::new());
        line("[client]".into());
        line(format!("keyring = {}", path(layout.keyring())));
    }
    line(String::new());
    line("[mon]".into());
    line(format!("mon data = {}", path(layout.dir().join("$name"))));
    line("mon allow pool delete = true".into());
    // Fewer OSDs than copies would never become healthy.
    line(format!("osd pool default size = {}", state.osds.min(3)));
    for index in 0..state.mons {
        line(format!("[mon.{}]", mon_id(index)));
        line(format!("public addr = {}", mon_addr(index)));
    }
    line(String::new());
    line("[osd]".into());
    line(format!("osd data = {}", path(layout.dir().join("$name"))));
    line(format!("osd size = {}", state.osd_size_bytes));
    for (what, dir) in [("wal", &state.wal_dir), ("metadata", &state.metadata_dir)] {
        if let Some(dir) = dir {
            line(format!("osd {what} device = {}", path(state.outside_file(dir, "$name", what))));
        }
    }
    if state.osd_shards > 1 {
        line(format!("osd op num shards = {}", state.osd_shards));
    }
    let memory = OSD_MEMORY_BYTES.max(osd::MEMORY_BYTES_MIN * u64::from(state.osd_shards));
    line(format!("osd memory target = {memory}"));
    line(format!("public addr = {}", state.bind));
    line(format!("cluster addr = {}", state.bind));
    // Each OSD stands for a host of its own, so that copies land on different OSDs as they would on different hosts.
    line("crush location = root=default host=host$id".into());
    text
}

/// Quotes what would otherwise end the value or be cut from it.
pub fn quoted(value: &str) -> String {
    let plain = !value.contains(['#', ';', '\\', '"', '\'']) && value.trim() == value;
    if plain { value.to_owned() } else { conf::quoted(value) }
}

/// The text of the keyring of `client.admin`, with a fresh key.
pub fn admin_keyring() -> Result<String> {
    keyring_of("client.admin", &["mds", "mgr", "mon", "osd"])
}

/// The text of the keyring of `name`, who may do everything with daemons of these kinds, with a fresh key.
pub fn keyring_of(name: &str, kinds: &[&str]) -> Result<String> {
    keyring_with(name, &kinds.iter().map(|kind| (*kind, "allow *")).collect::<Vec<_>>())
}

/// The text of the keyring of `name` with these capabilities, by kind of daemon, and with a fresh key.
pub fn keyring_with(name: &str, caps: &[(&str, &str)]) -> Result<String> {
    // A key as Ceph writes it: type 1 (AES), creation time, length, 16 random bytes.
    let now = Utime::from(std::time::SystemTime::now());
    let mut key = Vec::new();
    key.extend(1u16.to_le_bytes());
    key.extend(now.sec.to_le_bytes());
    key.extend(now.nsec.to_le_bytes());
    key.extend(16u16.to_le_bytes());
    key.extend(random_bytes::<16>()?);
    let caps: String = caps.iter().map(|(kind, caps)| format!("\tcaps {kind} = \"{caps}\"\n")).collect();
    Ok(format!("[{name}]\n\tkey = {}\n{caps}", types::base64::encode(&key)))
}

/// Bytes from the kernel's random number generator.
pub fn random_bytes<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    let mut source = std::fs::File::open("/dev/urandom").context("cannot open /dev/urandom")?;
    source.read_exact(&mut bytes).context("cannot read /dev/urandom")?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use client::{ConfFile, Who};
    use std::path::Path;

    #[test]
    fn what_is_written_reads_back() {
        let mut state = crate::state_file::tests::sample();
        state.mons = 3;
        state.metadata_dir = Some("/other drive".into());
        let layout = Layout::new(Path::new("/no where/it's #1")).unwrap();
        let conf = ConfFile::parse(&ceph_conf(&layout, &state), Path::new("ceph.conf")).unwrap();
        let config = client::Config::from_file(&conf, &Who::new("client", "admin")).unwrap();
        assert_eq!(config.mon_hosts.len(), 3);
        let keyring = conf.get(&Who::new("client", "admin"), "keyring");
        assert_eq!(keyring, Some(layout.keyring().display().to_string()));
        let get = |who: &str, key: &str| conf.get(&Who::parse(who).unwrap(), key).unwrap();
        assert_eq!(get("osd.1", "osd data"), "/no where/it's #1/osd.1");
        assert_eq!(get("osd.1", "crush location"), "root=default host=host1");
        let expected = format!("/other drive/osd.1.{}.metadata", state.fsid);
        assert_eq!(get("osd.1", "osd metadata device"), expected);
        assert_eq!(conf.get(&Who::parse("osd.1").unwrap(), "osd wal device"), None);
        assert_eq!(get("mon.c", "public addr"), "127.0.0.1:40002");
        assert_eq!(get("client.rgw.a", "ms mon client mode"), "crc");
        assert_eq!(get("mon.c", "mon data"), "/no where/it's #1/mon.c");
        assert_eq!(client::DaemonLogin::from_file(&conf, &Who::new("osd", "1")).unwrap(), None);
    }

    #[test]
    fn with_cephx_everybody_proves_who_he_is_by_a_keyring_of_his_own() {
        let state = ClusterState { cephx: true, ..crate::state_file::tests::sample() };
        let layout = Layout::new(Path::new("/no where")).unwrap();
        let conf = ConfFile::parse(&ceph_conf(&layout, &state), Path::new("ceph.conf")).unwrap();
        for who in [Who::new("osd", "1"), Who::new("mon", "a")] {
            let login = client::DaemonLogin::from_file(&conf, &who).unwrap().unwrap();
            let (crc, secure) = (auth::Mode::Crc, auth::Mode::Secure);
            // Monitors would rather be secure.
            let modes = if who.kind == "mon" { vec![secure, crc] } else { vec![crc, secure] };
            assert_eq!(login.accept, auth::ServerPolicy { modes, ..auth::ServerPolicy::cephx() }.into());
            assert_eq!(conf.get(&who, "keyring"), None);
        }
        let keyring = conf.get(&Who::new("client", "admin"), "keyring");
        assert_eq!(keyring, Some(layout.keyring().display().to_string()));
        assert_eq!(conf.get(&Who::new("client", "admin"), "ms mon client mode"), None);
        let offering = ClusterState { cephx: false, offers_cephx: true, ..state.clone() };
        let conf = ConfFile::parse(&ceph_conf(&layout, &offering), Path::new("ceph.conf")).unwrap();
        let login = client::DaemonLogin::from_file(&conf, &Who::new("osd", "1")).unwrap().unwrap();
        assert_eq!(login.connect.methods, [auth::Method::Cephx, auth::Method::None]);
        assert!(login.accept.clients.cephx && login.accept.daemons.none == auth::NoneFrom::Everybody);
        assert_eq!(conf.get(&Who::new("osd", "1"), "keyring"), None);
        let state = ClusterState { secure: true, ..state };
        let conf = ConfFile::parse(&ceph_conf(&layout, &state), Path::new("ceph.conf")).unwrap();
        for who in [Who::new("osd", "1"), Who::new("mon", "a")] {
            let login = client::DaemonLogin::from_file(&conf, &who).unwrap().unwrap();
            let accept = auth::ServerPolicy { modes: vec![auth::Mode::Secure], ..auth::ServerPolicy::cephx() };
            assert_eq!(login.accept, accept.into());
            assert_eq!(
                (login.connect.monitor_modes, login.connect.service_modes),
                (vec![auth::Mode::Secure], vec![auth::Mode::Secure])
            );
        }
    }

    #[test]
    fn keys_have_cephs_form_and_differ() {
        let (a, b) = (admin_keyring().unwrap(), admin_keyring().unwrap());
        assert_ne!(a, b);
        let key = a.lines().nth(1).unwrap().trim().strip_prefix("key = ").unwrap();
        assert!(key.starts_with("AQ") && key.len() == 40 && key.ends_with("=="), "{key}");
    }
}
