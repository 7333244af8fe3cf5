//! How a client proves who it is: options of `ceph.conf`, and the key that they lead to.

use crate::conf_file::{ConfError, ConfFile, Who};
use auth::keyring::Keyring;
use auth::{ClientPolicy, Key, KeyKind, Method, Mode};
use std::io;
use std::path::{Path, PathBuf};

/// Keyrings that are looked for where the option `keyring` is missing.
const KEYRINGS: &str =
    "/etc/ceph/$cluster.$name.keyring,/etc/ceph/$cluster.keyring,/etc/ceph/keyring,/etc/ceph/keyring.bin";

/// Methods and modes that a client accepts, and its key.
#[derive(Clone, Debug)]
pub struct Login {
    pub policy: ClientPolicy,
    /// `None` if method `none` is all that is left.
    pub key: Option<Key>,
    /// Place that the key was found in, for people: `keyring /etc/ceph/ceph.client.admin.keyring`.
    pub key_from: String,
}

impl Login {
    /// Method `none` alone.
    pub fn unproven() -> Login {
        let policy = ClientPolicy { methods: vec![Method::None], ..ClientPolicy::cephx() };
        Login { policy, key: None, key_from: "no key".to_owned() }
    }

    /// Reads the options `auth client required` (or `auth supported`), `ms client mode`, `ms mon client mode`, `auth
    /// allowed ciphers`, and for the key `key`, `keyfile` and `keyring`, in this order. Without a key only method
    /// `none` is left, if it is allowed.
    ///
    /// Errors: values that are no methods or modes; a key that cannot be read; no key where `none` is not allowed.
    pub fn from_file(conf: &ConfFile, who: &Who) -> Result<Login, ConfError> {
        let mut login = Login::unproven();
        login.policy.methods = methods(conf, who, "auth client required", &[Method::Cephx, Method::None])?;
        login.policy.monitor_modes = modes(conf, who, "ms mon client mode", &[Mode::Secure, Mode::Crc])?;
        login.policy.service_modes = modes(conf, who, "ms client mode", &[Mode::Crc, Mode::Secure])?;
        login.policy.key_kinds = key_kinds(conf, who)?;
        if !login.policy.methods.contains(&Method::Cephx) {
            return Ok(login);
        }
        match find_key(conf, who, KEYRINGS)? {
            Found::Key(key, from) => (login.key, login.key_from) = (Some(key), from),
            Found::Nothing(reason) => {
                login.policy.methods.retain(|method| *method == Method::None);
                if login.policy.methods.is_empty() {
                    return Err(ConfError::NoKey { who: who.clone(), reason });
                }
            }
        }
        Ok(login)
    }
}

fn words(value: &str) -> impl Iterator<Item = &str> {
    value.split([',', ' ', ';', '\t']).filter(|word| !word.is_empty())
}

/// The methods of option `key`, best first; those of `auth supported` go before.
pub(crate) fn methods(conf: &ConfFile, who: &Who, key: &str, default: &[Method]) -> Result<Vec<Method>, ConfError> {
    let key = if conf.get(who, "auth supported").is_some() { "auth supported" } else { key };
    let Some(value) = conf.get(who, key) else { return Ok(default.to_vec()) };
    let mut methods = Vec::new();
    for word in words(&value) {
        methods.push(match word {
            "cephx" => Method::Cephx,
            "none" => Method::None,
            _ => return Err(conf.bad_value(key, &value, "names a method other than 'cephx' and 'none'")),
        });
    }
    if methods.is_empty() {
        return Err(conf.bad_value(key, &value, "names no method: there are 'cephx' and 'none'"));
    }
    Ok(methods)
}

/// The modes of option `key`, best first.
pub(crate) fn modes(conf: &ConfFile, who: &Who, key: &str, default: &[Mode]) -> Result<Vec<Mode>, ConfError> {
    let Some(value) = conf.get(who, key) else { return Ok(default.to_vec()) };
    let mut modes = Vec::new();
    for word in words(&value) {
        modes.push(match word {
            "crc" => Mode::Crc,
            "secure" => Mode::Secure,
            _ => return Err(conf.bad_value(key, &value, "names a mode other than 'crc' and 'secure'")),
        });
    }
    if modes.is_empty() {
        return Err(conf.bad_value(key, &value, "names no mode: there are 'crc' and 'secure'"));
    }
    Ok(modes)
}

/// The kinds of keys that option `auth allowed ciphers` allows.
pub(crate) fn key_kinds(conf: &ConfFile, who: &Who) -> Result<Vec<KeyKind>, ConfError> {
    const OPTION: &str = "auth allowed ciphers";
    let Some(value) = conf.get(who, OPTION) else { return Ok(KeyKind::ALL.to_vec()) };
    let names_others = |_| conf.bad_value(OPTION, &value, "has to name kinds of keys: there are 'aes' and 'aes256k'");
    KeyKind::list(&value).map_err(names_others)
}

pub(crate) enum Found {
    /// The key, and the place that it was found in.
    Key(Key, String),
    /// Reason why there is none.
    Nothing(String),
}

/// Looks for the key of `who`, and where options name no keyring, in the files `default`.
pub(crate) fn find_key(conf: &ConfFile, who: &Who, default: &str) -> Result<Found, ConfError> {
    let bad = |reason: String| ConfError::NoKey { who: who.clone(), reason };
    if let Some(text) = conf.get(who, "key").filter(|text| !text.is_empty()) {
        let from = format!("option 'key' of {}", conf.path().display());
        return match Key::from_text(&text) {
            Ok(key) => Ok(Found::Key(key, from)),
            Err(error) => Err(bad(format!("{from}: {error}"))),
        };
    }
    if let Some(file) = conf.get(who, "keyfile").filter(|file| !file.is_empty()) {
        let text = std::fs::read_to_string(&file).map_err(|error| bad(format!("cannot read {file}: {error}")))?;
        return match Key::from_text(&text) {
            Ok(key) => Ok(Found::Key(key, format!("keyfile {file}"))),
            Err(error) => Err(bad(format!("{file}: {error}"))),
        };
    }
    let files = conf.get(who, "keyring").unwrap_or_else(|| conf.expand(who, default));
    let files: Vec<PathBuf> = split_paths(&files);
    for file in &files {
        match std::fs::read(file) {
            Ok(text) => return in_keyring(file, &text, who).map_err(bad),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Ok(Found::Nothing(format!("cannot read {}: {error}", file.display()))),
        }
    }
    let tried: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
    Ok(Found::Nothing(format!("there is no keyring: tried {}", tried.join(", "))))
}

/// Paths may have blanks in them; lists are separated by commas and semicolons.
fn split_paths(list: &str) -> Vec<PathBuf> {
    list.split([',', ';']).map(str::trim).filter(|path| !path.is_empty()).map(PathBuf::from).collect()
}

fn in_keyring(file: &Path, text: &[u8], who: &Who) -> Result<Found, String> {
    let keyring = Keyring::parse(file, text).map_err(|error| error.to_string())?;
    let entry = who.entity().and_then(|name| keyring.find(&name).cloned());
    Ok(match entry {
        Some(entry) => Found::Key(entry.key, format!("keyring {}", file.display())),
        None => Found::Nothing(format!("keyring {} has no '{who}'", file.display())),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "AQDBiAlru/32OBAAed62k2sQrvSFZPR9PkqFpg==";
    const OTHER: &str = "AQCxiglrI7E+KRAA0QnBAvxwIldWMZl1gqttoQ==";

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let folder = std::env::temp_dir().join(format!("nacre-login-{}-{name}", std::process::id()));
            std::fs::create_dir_all(&folder).unwrap();
            Folder(folder)
        }

        fn write(&self, name: &str, text: &str) {
            std::fs::write(self.0.join(name), text).unwrap();
        }

        /// Reads options in which `DIR` stands for the folder.
        fn login(&self, options: &str) -> Result<Login, ConfError> {
            let text = format!("[global]\n{}\n", options.replace("DIR", &self.0.display().to_string()));
            Login::from_file(&ConfFile::parse(&text, Path::new("c")).unwrap(), &Who::new("client", "x"))
        }

        /// The text of the key that is found, and the end of where it was.
        fn key(&self, options: &str) -> (String, String) {
            let login = self.login(options).unwrap();
            let from = login.key_from.replace(&self.0.display().to_string(), "DIR");
            (login.key.map(|key| key.to_text().to_string()).unwrap_or_default(), from)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_key_is_found_where_the_options_lead() {
        let folder = Folder::new("found");
        folder.write("ceph.client.x.keyring", &format!("[client.y]\nkey = {OTHER}\n[client.x]\nkey = {KEY}\n"));
        folder.write("secret", &format!("{OTHER}\n"));
        let found = |key: &str, from: &str| (key.to_owned(), from.to_owned());
        let by_name = "keyring = DIR/none, DIR/${cluster}.$name.keyring, DIR/secret";
        assert_eq!(folder.key(by_name), found(KEY, "keyring DIR/ceph.client.x.keyring"));
        let with_file = format!("{by_name}\nkeyfile = DIR/secret");
        assert_eq!(folder.key(&with_file), found(OTHER, "keyfile DIR/secret"));
        assert_eq!(folder.key(&format!("{with_file}\nkey = {KEY}")), found(KEY, "option 'key' of c"));
        // With 'none' alone no key is looked for.
        assert_eq!(folder.key("auth client required = none\nkey = rubbish"), found("", "no key"));
    }

    #[test]
    fn without_a_key_only_none_is_left() {
        let folder = Folder::new("left");
        let login = folder.login("keyring = DIR/nowhere").unwrap();
        assert_eq!((login.policy.methods, login.key), (vec![Method::None], None));
        folder.write("others", &format!("[client.y]\nkey = {OTHER}\n"));
        folder.write("broken", "[client.x]\nkey = AAAA\n");
        let needed = "auth client required = cephx\n";
        for (options, part) in [
            ("keyring = DIR/nowhere", "client.x has no key: there is no keyring: tried DIR/nowhere"),
            ("keyring = DIR/others", "client.x has no key: keyring DIR/others has no 'client.x'"),
            ("keyring = DIR/broken", "DIR/broken:2: "),
            ("keyfile = DIR/nowhere", "cannot read DIR/nowhere: "),
            ("key = AAAA", "option 'key' of c: "),
            ("ms client mode = crc, plain\nkeyring = DIR/others", "names a mode other than"),
            ("auth supported = gss", "names a method other than"),
        ] {
            let error = folder.login(&format!("{needed}{options}")).unwrap_err().to_string();
            let error = error.replace(&folder.0.display().to_string(), "DIR");
            assert!(error.contains(part), "{error}");
            assert!(!error.contains("AAAA"), "a value that may be a key is not repeated: {error}");
        }
    }

    #[test]
    fn modes_and_methods_are_those_of_the_options_in_their_order() {
        let folder = Folder::new("modes");
        let policy = folder.login("keyring = DIR/nowhere").unwrap().policy;
        assert_eq!(policy.monitor_modes, [Mode::Secure, Mode::Crc]);
        assert_eq!(policy.service_modes, [Mode::Crc, Mode::Secure]);
        let options = format!("key = {KEY}\nms client mode = secure\nms mon client mode = crc secure\n");
        let policy = folder.login(&options).unwrap().policy;
        assert_eq!(policy.monitor_modes, [Mode::Crc, Mode::Secure]);
        assert_eq!(policy.service_modes, [Mode::Secure]);
        assert_eq!(policy.methods, [Method::Cephx, Method::None]);
        let policy = folder.login(&format!("{options}auth client required = none, cephx")).unwrap().policy;
        assert_eq!(policy.methods, [Method::None, Method::Cephx]);
    }
}
