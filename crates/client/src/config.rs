//! Configuration that a client needs before it can connect.

use crate::conf_file::{ConfError, ConfFile, Who};
use crate::login::Login;
use crate::mon_host::{MonHost, parse_mon_host};
use std::path::Path;
use std::time::Duration;

/// Addresses of a cluster's monitors, the client's name, and timeouts.
#[derive(Clone, Debug)]
pub struct Config {
    /// Name of the connecting client; `client.admin` by default.
    pub who: Who,
    pub mon_hosts: Vec<MonHost>,
    pub login: Login,
    /// Longest time for connecting: session, monitor map, OSD map.
    pub connect_timeout: Duration,
    /// Longest time for one operation on an object; `None` waits for ever, as Ceph's clients do.
    pub op_timeout: Option<Duration>,
    /// Longest time for one monitor command; `None` waits for ever.
    pub mon_op_timeout: Option<Duration>,
}

impl Config {
    /// A configuration for these monitors, with usual timeouts.
    pub fn new(mon_hosts: Vec<MonHost>) -> Config {
        Config {
            who: Who::new("client", "admin"),
            mon_hosts,
            login: Login::unproven(),
            connect_timeout: Duration::from_secs(30),
            op_timeout: None,
            mon_op_timeout: None,
        }
    }

    /// Reads a `ceph.conf` as `client.admin`.
    pub fn from_conf(path: impl AsRef<Path>) -> Result<Config, ConfError> {
        Config::from_conf_as(path, &Who::new("client", "admin"))
    }

    /// Reads a `ceph.conf` as `who`, and the key that it leads to. Options read: `mon host`, `client mount timeout`,
    /// `rados osd op timeout`, `rados mon op timeout` (seconds, 0 for none), and those of [`Login::from_file`].
    pub fn from_conf_as(path: impl AsRef<Path>, who: &Who) -> Result<Config, ConfError> {
        Config::from_file(&ConfFile::load(path.as_ref())?, who)
    }

    /// Like [`Config::from_conf_as`] for a file already read.
    pub fn from_file(conf: &ConfFile, who: &Who) -> Result<Config, ConfError> {
        let mon_host = conf.require(who, "mon host")?;
        let mon_hosts = parse_mon_host(&mon_host).map_err(|e| conf.bad_value("mon host", &mon_host, e.to_string()))?;
        let seconds = |key: &str| -> Result<Option<Duration>, ConfError> {
            let Some(value) = conf.get(who, key) else { return Ok(None) };
            // Ceph allows a unit; most files give plain seconds.
            let number: f64 = value
                .trim_end_matches('s')
                .trim()
                .parse()
                .ok()
                .filter(|n: &f64| n.is_finite() && (0.0..1e9).contains(n))
                .ok_or_else(|| conf.bad_value(key, &value, "is not a number of seconds"))?;
            Ok(Some(Duration::from_secs_f64(number)))
        };
        let mut config = Config::new(mon_hosts);
        config.who = who.clone();
        config.login = Login::from_file(conf, who)?;
        if let Some(timeout) = seconds("client mount timeout")? {
            config.connect_timeout = timeout;
        }
        config.op_timeout = seconds("rados osd op timeout")?.filter(|t| !t.is_zero());
        config.mon_op_timeout = seconds("rados mon op timeout")?.filter(|t| !t.is_zero());
        Ok(config)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Config, ConfError> {
        Config::from_file(&ConfFile::parse(text, Path::new("c")).unwrap(), &Who::new("client", "admin"))
    }

    #[test]
    fn options_and_their_errors() {
        let config = read(
            "[global]\nmon_host = 127.0.0.1:40000\nkeyring = /k/$name.keyring\nauth client required = none\n\
             [client]\nrados osd op timeout = 2.5\nrados mon op timeout = 0\nclient mount timeout = 7\n",
        )
        .unwrap();
        assert_eq!(config.mon_hosts, [MonHost::Addr("127.0.0.1:40000".parse().unwrap())]);
        assert_eq!((config.op_timeout, config.mon_op_timeout), (Some(Duration::from_millis(2500)), None));
        assert_eq!(config.connect_timeout, Duration::from_secs(7));
        for (text, part) in [
            ("[global]\n", "no option 'mon host'"),
            ("[global]\nmon host = x y z:q\n", "'z:q'"),
            (
                "[global]\nmon host = 1.2.3.4\nauth client required = cephx\nkeyring = /k/$name.keyring\n",
                "client.admin has no key: there is no keyring: tried /k/client.admin.keyring",
            ),
            ("[global]\nmon host = 1.2.3.4\nclient mount timeout = soon\n", "not a number"),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
