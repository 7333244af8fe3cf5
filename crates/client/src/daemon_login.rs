//! How a daemon proves who it is to other daemons, and which proofs it asks for: options of `ceph.conf`.

use crate::conf_file::{ConfError, ConfFile, Who};
use crate::login::{Found, find_key, key_kinds, methods, modes};
use auth::{ClientPolicy, Key, KeyKind, Method, Mode, NoneFrom, ServerPolicies, ServerPolicy};

/// Methods and modes of a daemon.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DaemonLogin {
    /// The proofs that are asked of clients and daemons that connect.
    pub accept: ServerPolicies,
    /// How this daemon proves itself to other daemons.
    pub connect: ClientPolicy,
}

/// The options that say which modes are taken, by who connects to whom. A monitor has its own.
struct ModeOptions {
    /// Daemons that connect, or that are connected to.
    cluster: &'static str,
    /// Clients that connect. To a monitor other daemons are clients, too.
    service: &'static str,
    /// Monitors that this daemon connects to.
    monitors: &'static str,
    default: [Mode; 2],
}

const OF_MONITORS: ModeOptions = ModeOptions {
    cluster: "ms mon cluster mode",
    service: "ms mon service mode",
    monitors: "ms mon cluster mode",
    default: [Mode::Secure, Mode::Crc],
};
const OF_OTHERS: ModeOptions = ModeOptions {
    cluster: "ms cluster mode",
    service: "ms service mode",
    monitors: "ms mon client mode",
    default: [Mode::Crc, Mode::Secure],
};

impl DaemonLogin {
    /// Reads the options `auth cluster required`, `auth service required`, `auth allowed ciphers` and those that begin
    /// with `ms`. `None`: `cephx` is in none of them, and nobody proves anything. That is so, too, where they are
    /// missing.
    ///
    /// Errors: values that are no methods, modes or kinds of keys; secure mode alone without `cephx`, which has the
    /// secret for it; proofs of clients, where whoever says that he is a daemon gets everything without one.
    pub fn from_file(conf: &ConfFile, who: &Who) -> Result<Option<DaemonLogin>, ConfError> {
        let options = if who.kind == "mon" { OF_MONITORS } else { OF_OTHERS };
        let cluster = methods(conf, who, "auth cluster required", &[Method::None])?;
        let service = methods(conf, who, "auth service required", &[Method::None])?;
        let cluster_modes = modes(conf, who, options.cluster, &options.default)?;
        let service_modes = modes(conf, who, options.service, &options.default)?;
        let monitor_modes = modes(conf, who, options.monitors, &[Mode::Secure, Mode::Crc])?;
        if ![&cluster, &service].into_iter().any(|methods| methods.contains(&Method::Cephx)) {
            for (key, modes) in [(options.cluster, &cluster_modes), (options.service, &service_modes)] {
                if !modes.contains(&Mode::Crc) {
                    let reason = "takes secure mode alone, for which there is no secret without 'cephx'";
                    return Err(conf.bad_value(key, &conf.get(who, key).unwrap_or_default(), reason));
                }
            }
            return Ok(None);
        }
        if cluster.contains(&Method::None) && !service.contains(&Method::None) {
            let key = "auth cluster required";
            let reason = "lets in whoever says that he is an OSD or a monitor, while 'auth service required' asks clients for \
                          proofs: leave 'none' out of the former, or allow it in both";
            let value = conf.get(who, key).unwrap_or_else(|| "none, for it is missing".to_owned());
            return Err(conf.bad_value(key, &value, reason));
        }
        let is_monitor = who.kind == "mon";
        let key_kinds = key_kinds(conf, who)?;
        let daemons = server_policy(&cluster, if is_monitor { &service_modes } else { &cluster_modes }, &key_kinds);
        let accept = ServerPolicies {
            monitors: server_policy(&cluster, &cluster_modes, &key_kinds),
            daemons,
            clients: server_policy(&service, &service_modes, &key_kinds),
        };
        let connect = ClientPolicy { methods: cluster, monitor_modes, service_modes: cluster_modes, key_kinds };
        Ok(Some(DaemonLogin { accept, connect }))
    }
}

fn server_policy(methods: &[Method], modes: &[Mode], key_kinds: &[KeyKind]) -> ServerPolicy {
    let none = if methods.contains(&Method::None) { NoneFrom::Everybody } else { NoneFrom::Nobody };
    let cephx = methods.contains(&Method::Cephx);
    ServerPolicy { cephx, none, modes: modes.to_vec(), key_kinds: key_kinds.to_vec() }
}

/// Finds the key of a daemon: by its options `key`, `keyfile` and `keyring`, and else in the keyring of its folder.
///
/// Errors: there is none, or it cannot be read.
pub fn daemon_key(conf: &ConfFile, who: &Who, keyring: &str) -> Result<Key, ConfError> {
    match find_key(conf, who, keyring)? {
        Found::Key(key, _) => Ok(key),
        Found::Nothing(reason) => Err(ConfError::NoKey { who: who.clone(), reason }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn read(who: &str, options: &str) -> Result<Option<DaemonLogin>, String> {
        let conf = ConfFile::parse(&format!("[global]\n{options}\n"), Path::new("c")).unwrap();
        DaemonLogin::from_file(&conf, &Who::parse(who).unwrap()).map_err(|error| error.to_string())
    }

    #[test]
    fn nobody_proves_anything_unless_cephx_is_asked_for() {
        assert_eq!(read("osd.1", ""), Ok(None));
        assert_eq!(read("osd.1", "auth cluster required = none\nauth service required = none"), Ok(None));
        // This says what clients do.
        assert_eq!(read("osd.1", "auth client required = cephx"), Ok(None));
        let login = read("osd.1", "auth cluster required = cephx\nauth service required = cephx").unwrap().unwrap();
        assert_eq!(login.accept, ServerPolicies::from(ServerPolicy::cephx()));
        assert_eq!(login.connect, ClientPolicy::cephx());
        let login = read("mon.a", "auth supported = cephx").unwrap().unwrap();
        assert!(login.accept.clients.cephx && login.accept.clients.none == NoneFrom::Nobody);
        let login =
            read("osd.1", "auth cluster required = cephx\nauth service required = cephx, none").unwrap().unwrap();
        assert_eq!(login.accept.clients.none, NoneFrom::Everybody);
        assert_eq!(login.accept.daemons.none, NoneFrom::Nobody);
    }

    #[test]
    fn modes_are_those_of_the_kind_of_daemon_and_of_peer() {
        let all = "auth supported = cephx\nms cluster mode = secure\nms mon service mode = crc";
        let osd = read("osd.1", all).unwrap().unwrap();
        assert_eq!(osd.accept.daemons.modes, [Mode::Secure]);
        assert_eq!(osd.accept.clients.modes, [Mode::Crc, Mode::Secure]);
        assert_eq!(osd.connect.service_modes, [Mode::Secure]);
        assert_eq!(osd.connect.monitor_modes, [Mode::Secure, Mode::Crc]);
        let mon = read("mon.a", all).unwrap().unwrap();
        assert_eq!(mon.accept.monitors.modes, [Mode::Secure, Mode::Crc]);
        assert_eq!(
            (&mon.accept.daemons.modes[..], &mon.accept.clients.modes[..]),
            (&[Mode::Crc][..], &[Mode::Crc][..])
        );
    }

    #[test]
    fn kinds_of_keys_are_those_that_are_allowed() {
        let login = read("mon.a", "auth supported = cephx\nauth allowed ciphers = aes256k").unwrap().unwrap();
        for policy in [&login.accept.monitors, &login.accept.daemons, &login.accept.clients] {
            assert_eq!(policy.key_kinds, [KeyKind::Aes256k]);
        }
        assert_eq!(login.connect.key_kinds, [KeyKind::Aes256k]);
        let error = read("osd.1", "auth supported = cephx\nauth_allowed_ciphers = des").unwrap_err();
        assert!(error.contains("there are 'aes' and 'aes256k'"), "{error}");
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let error = read("osd.1", "ms service mode = secure").unwrap_err();
        assert!(error.contains("without 'cephx'"), "{error}");
        for cluster in ["auth cluster required = none", "auth cluster required = cephx, none", ""] {
            for who in ["osd.1", "mon.a"] {
                let error = read(who, &format!("{cluster}\nauth service required = cephx")).unwrap_err();
                assert!(
                    error.contains("'auth cluster required'") && error.contains("says that he is an OSD"),
                    "{error}"
                );
            }
        }
        // All may come without proofs, or clients alone.
        for cluster in ["cephx, none", "cephx"] {
            let options = format!("auth cluster required = {cluster}\nauth service required = cephx, none");
            assert!(read("osd.1", &options).unwrap().is_some());
        }
        let error = read("osd.1", "auth service required = kerberos").unwrap_err();
        assert!(error.contains("kerberos"), "{error}");
    }
}
