//! `ceph osd new`: an OSD and the secrets that it starts with.

use super::arguments::Arguments;
use super::command::Command;
use super::context::Context;
use super::osd_change::{bring_into_being, check_room};
use super::{Answer, Outcome, Reply, auth_kinds, refuse};
use crate::Update;
use crate::state::AuthEntry;
use auth::Key;
use bytes::Bytes;
use serde_json::{Value, json};
use types::{Errno, Fsid, OsdId};

pub(super) const COMMANDS: &[Command] = &[Command::new(
    "osd new {uuid:UUID,req=true} {id:OsdName,req=false}",
    "rw",
    "bring an OSD into being, with secrets from the input, and print its id",
    new,
)];

fn new(c: &Context<'_>) -> Answer {
    let uuid = uuid_of(&c.args);
    let secrets = Secrets::read(c)?;
    let wanted = c.args.osd("id");
    let print = |osd: OsdId| c.either(|| format!("{}\n", osd.0), || json!({"osdid": osd.0}));
    if let Some(known) = c.map().osd_by_uuid(&uuid) {
        return match wanted {
            Some(wanted) if wanted != known => {
                refuse(Errno::EEXIST, format!("uuid {uuid} already in use for different id {}", known.0))
            }
            _ => answer(c, print(known)?, None, secrets.updates(c, known, uuid)?),
        };
    }
    let osd = match wanted {
        Some(osd) if c.map().exists(osd) && !c.map().is_destroyed(osd) => {
            let sentence = format!("id {} already in use and does not match uuid {uuid}", osd.0);
            return refuse(Errno::EINVAL, sentence);
        }
        Some(osd) => osd,
        None => c.map().free_osd_id(),
    };
    check_room(osd)?;
    let updates = secrets.updates(c, osd, uuid)?;
    answer(c, print(osd)?, bring_into_being(c, osd, uuid, secrets.device_class.as_deref())?, updates)
}

fn uuid_of(args: &Arguments) -> Fsid {
    args.uuid("uuid").expect("the signature requires it")
}

/// Returns an answer whose output comes once all updates are durable.
fn answer(c: &Context<'_>, printed: Outcome, osd: Option<Update>, secrets: Vec<Update>) -> Answer {
    match printed {
        Outcome::Reply(reply) => c.propose(osd.into_iter().chain(secrets).collect(), reply),
        other => Ok(other),
    }
}

/// Secrets and class of a new OSD, from the input.
#[derive(Default)]
struct Secrets {
    /// The OSD's own key.
    key: Option<AuthEntry>,
    /// The key with which the OSD's machine fetches the key of its encrypted drive, and that key.
    lockbox: Option<(AuthEntry, String)>,
    device_class: Option<String>,
}

impl Secrets {
    /// Reads the input. One that is no JSON object has none, as on a Ceph.
    fn read(c: &Context<'_>) -> Result<Secrets, Reply> {
        let Ok(Value::Object(input)) = serde_json::from_slice(&c.request.input) else { return Ok(Secrets::default()) };
        let text = |key: &str| input.get(key).and_then(Value::as_str);
        let device_class = text("crush_device_class").filter(|class| !class.is_empty()).map(str::to_owned);
        let entry = |text: &str, what: &str| match Key::from_text(text) {
            Ok(key) => Ok(AuthEntry { key, pending_key: None, caps: Default::default() }),
            Err(_) => refuse(Errno::EINVAL, format!("invalid {what}.")),
        };
        let lockbox = match (text("cephx_lockbox_secret"), text("dmcrypt_key")) {
            (None, None) => None,
            _ if text("cephx_secret").is_none() => return refuse(Errno::EINVAL, "requires a cephx secret."),
            (Some(lockbox), Some(key)) => Some((entry(lockbox, "cephx lockbox secret")?, key.to_owned())),
            _ => return refuse(Errno::EINVAL, "requires both a cephx lockbox secret and a dm-crypt key."),
        };
        let key = text("cephx_secret").map(|text| entry(text, "cephx secret")).transpose()?;
        Ok(Secrets { key, lockbox, device_class })
    }

    /// Returns what is to be kept. Error: an entity has another key.
    fn updates(&self, c: &Context<'_>, osd: OsdId, uuid: Fsid) -> Result<Vec<Update>, Reply> {
        let mut updates = Vec::new();
        let mut keep = |entity: String, key: &AuthEntry, caps: &[(&str, String)]| match c.state.auth.get(&entity) {
            Some(known) if known.key != key.key => {
                refuse(Errno::EEXIST, format!("entity {entity} exists but key does not match"))
            }
            Some(_) => Ok(()),
            None => {
                auth_kinds::check_key(c, &entity, &key.key)?;
                let caps = caps.iter().map(|(service, cap)| ((*service).to_owned(), cap.clone())).collect();
                updates.push(Update::Auth { entity, entry: Some(AuthEntry { caps, ..key.clone() }) });
                Ok(())
            }
        };
        if let Some(key) = &self.key {
            let profile = || "allow profile osd".to_owned();
            keep(osd.to_string(), key, &[("mon", profile()), ("mgr", profile()), ("osd", "allow *".to_owned())])?;
        }
        if let Some((key, luks)) = &self.lockbox {
            let place = luks_key(uuid);
            keep(lockbox(uuid), key, &[("mon", format!("allow command \"config-key get\" with key=\"{place}\""))])?;
            let value = Bytes::copy_from_slice(luks.as_bytes());
            match c.state.config_keys.get(&place) {
                Some(known) if known.0 != value => {
                    return refuse(Errno::EEXIST, "dm-crypt key already exists and does not match");
                }
                Some(_) => {}
                None => updates.push(Update::ConfigKey { key: place, value: Some(value.into()) }),
            }
        }
        Ok(updates)
    }
}

fn lockbox(uuid: Fsid) -> String {
    format!("client.osd-lockbox.{uuid}")
}

fn luks_key(uuid: Fsid) -> String {
    format!("dm-crypt/osd/{uuid}/luks")
}

/// Returns the updates that forget the secrets of an OSD's encrypted drive.
pub(super) fn forget_lockbox(c: &Context<'_>, uuid: Fsid) -> Vec<Update> {
    let entity = lockbox(uuid);
    let known = c.state.auth.contains_key(&entity);
    let mut updates: Vec<Update> = known.then_some(Update::Auth { entity, entry: None }).into_iter().collect();
    let prefix = format!("dm-crypt/osd/{uuid}/");
    let keys = c.state.config_keys.range(prefix.clone()..).take_while(|(key, _)| key.starts_with(&prefix));
    updates.extend(keys.map(|(key, _)| Update::ConfigKey { key: key.clone(), value: None }));
    updates
}

#[cfg(test)]
mod tests {
    use crate::commands::test_cluster::TestCluster;
    use serde_json::{Value, json};

    const KEY: &str = "AQBpkAlrW/XJBRAAsrk6AiloMTqp6z6JQC4YaQ==";
    const OTHER: &str = "AQBskAlrl1k0AhAAX6GpwlIuuse04PydHoPLeA==";

    fn uuid(n: u32) -> String {
        format!("11111111-2222-3333-4444-5555555555{n:02}")
    }

    #[test]
    fn an_osd_gets_its_secrets_and_they_go_with_it() {
        let mut cluster = TestCluster::with_osds();
        let mut new = |n: u32, input: Value, code: i32, status: &str| {
            let command = json!({"prefix": "osd new", "uuid": uuid(n)});
            let reply = cluster.run_with(command, input.to_string());
            assert_eq!((reply.code, reply.status.as_str()), (code, status), "{n}: {input}");
        };
        new(1, json!({"cephx_secret": KEY}), 0, "");
        new(1, json!({"cephx_secret": KEY}), 0, "");
        new(1, json!({"cephx_secret": OTHER}), -17, "entity osd.3 exists but key does not match");
        new(2, json!({"cephx_secret": "junk"}), -22, "invalid cephx secret.");
        new(2, json!({"cephx_lockbox_secret": KEY}), -22, "requires a cephx secret.");
        new(2, json!({"dmcrypt_key": "abc"}), -22, "requires a cephx secret.");
        let both = "requires both a cephx lockbox secret and a dm-crypt key.";
        new(2, json!({"cephx_secret": KEY, "dmcrypt_key": "abc"}), -22, both);
        new(2, json!({"cephx_secret": KEY, "cephx_lockbox_secret": KEY}), -22, both);
        new(2, json!({"cephx_secret": KEY, "cephx_lockbox_secret": OTHER, "dmcrypt_key": "abc"}), 0, "");
        new(3, json!({"cephx_secret": KEY, "crush_device_class": "foo"}), 0, "");
        let get = |entity: &str| json!({"prefix": "auth get", "entity": entity});
        let osd = cluster.ok(get("osd.3"));
        assert!(osd.contains(KEY) && osd.contains("caps osd = \"allow *\""), "{osd}");
        let lockbox = format!("client.osd-lockbox.{}", uuid(2));
        let luks = format!("dm-crypt/osd/{}/luks", uuid(2));
        assert!(cluster.ok(get(&lockbox)).contains(&luks));
        assert_eq!(cluster.ok(json!({"prefix": "config-key get", "key": luks})), "abc");
        for osd in [4, 5] {
            cluster.ok(json!({"prefix": "osd purge", "id": osd, "yes_i_really_mean_it": true}));
        }
        assert_eq!(cluster.run(get(&lockbox)).code, -2);
        assert_eq!(cluster.run(json!({"prefix": "config-key get", "key": luks})).code, -2);
    }
    #[test]
    fn an_osd_that_is_made_anew_gets_another_class() {
        let mut cluster = TestCluster::with_osds();
        cluster.ok(json!({"prefix": "osd down", "ids": ["0"]}));
        cluster.ok(json!({"prefix": "osd destroy", "id": 0, "yes_i_really_mean_it": true}));
        cluster.ok(json!({"prefix": "osd crush rm-device-class", "ids": ["0"]}));
        let command = json!({"prefix": "osd new", "uuid": uuid(1), "id": 0});
        assert_eq!(cluster.run_with(command, json!({"crush_device_class": "foo"}).to_string()).code, 0);
        let class = json!({"prefix": "osd crush get-device-class", "ids": ["osd.0"]});
        assert_eq!(cluster.ok(class), "foo\n");
    }
}
