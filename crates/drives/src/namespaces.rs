//! Decides how an NVMe drive is divided into namespaces, by the commands of nvme-cli. Everything on it goes.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::step::Step;

/// A controller's description of itself, from `nvme id-ctrl -o json` and `nvme id-ns -o json`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Controller {
    /// The controller's number, to which namespaces are attached.
    pub id: u16,
    /// Bytes of the whole drive.
    pub bytes: u64,
    /// Namespaces that it can have at most; 0 if it cannot make any.
    pub namespaces_max: u32,
    /// Bytes of a block in the format that namespaces get.
    pub block_bytes: u64,
}

/// The reason why no namespaces are made.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NamespaceError {
    #[error("what the drive tells of itself has no '{0}'")]
    Unknown(&'static str),
    #[error("the drive has at most {0} namespaces; {1} are asked for")]
    TooMany(u32, u32),
    #[error("the drive cannot make namespaces")]
    Unable,
    #[error("the drive does not tell how large it is as a whole (tnvmcap is 0)")]
    NoCapacity,
    #[error("{1} namespaces of a drive of {0} bytes have less than 1 MiB each")]
    TooSmall(u64, u32),
}

/// Bit of `oacs` for the management of namespaces.
const MANAGES_NAMESPACES: u64 = 1 << 3;

impl Controller {
    /// Reads the answers of `nvme id-ctrl` and of `nvme id-ns` on the first namespace.
    ///
    /// Errors: a field is missing.
    pub fn of(id_ctrl: &Value, id_ns: &Value) -> Result<Controller, NamespaceError> {
        let number = |value: &Value, name: &'static str| {
            // Large numbers are texts in some versions.
            let field = &value[name];
            field.as_u64().or_else(|| field.as_str()?.parse().ok()).ok_or(NamespaceError::Unknown(name))
        };
        let manages = number(id_ctrl, "oacs")? & MANAGES_NAMESPACES != 0;
        let format = usize::try_from(number(id_ns, "flbas")? & 0xf).unwrap_or(0);
        let shift = number(&id_ns["lbafs"][format], "ds")?;
        let most = number(id_ctrl, "nn")?;
        Ok(Controller {
            id: u16::try_from(number(id_ctrl, "cntlid")?).map_err(|_| NamespaceError::Unknown("cntlid"))?,
            bytes: number(id_ctrl, "tnvmcap")?,
            namespaces_max: if manages { u32::try_from(most).unwrap_or(u32::MAX) } else { 0 },
            block_bytes: 1u64.checked_shl(u32::try_from(shift).unwrap_or(64)).ok_or(NamespaceError::Unknown("ds"))?,
        })
    }
}

/// The steps that give the controller at `path` (`/dev/nvme0`) `count` namespaces of equal size, and erase them. Older
/// namespaces, which the kernel shows at `older`, are deleted, so nobody may use them.
///
/// Errors: [`NamespaceError`].
pub fn divide(path: &Path, controller: Controller, count: u32, older: &[PathBuf]) -> Result<Vec<Step>, NamespaceError> {
    if controller.namespaces_max == 0 {
        return Err(NamespaceError::Unable);
    }
    if count == 0 || count > controller.namespaces_max {
        return Err(NamespaceError::TooMany(controller.namespaces_max, count));
    }
    if controller.bytes == 0 {
        return Err(NamespaceError::NoCapacity);
    }
    let path = path.display().to_string();
    let nvme =
        |args: &[String]| Step::Command { program: "nvme".into(), args: args.into(), package: "nvme-cli".into() };
    // Whole MiB, which any block divides.
    let bytes = controller.bytes / u64::from(count) / (1 << 20) * (1 << 20);
    if bytes == 0 {
        return Err(NamespaceError::TooSmall(controller.bytes, count));
    }
    let blocks = bytes / controller.block_bytes;
    let mut steps = vec![nvme(&["delete-ns".into(), path.clone(), "--namespace-id=0xffffffff".into()])];
    // The kernel drops a namespace that has become another one, and shows that only when it looks again. It must have
    // forgotten all older ones before there are new ones of their numbers.
    steps.push(nvme(&["ns-rescan".into(), path.clone()]));
    steps.extend(older.iter().map(|path| Step::Disappears { path: path.clone() }));
    for id in 1..=count {
        steps.push(nvme(&[
            "create-ns".into(),
            path.clone(),
            format!("--nsze={blocks}"),
            format!("--ncap={blocks}"),
            format!("--block-size={}", controller.block_bytes),
        ]));
        let to = format!("--controllers={}", controller.id);
        steps.push(nvme(&["attach-ns".into(), path.clone(), format!("--namespace-id={id}"), to]));
    }
    steps.push(nvme(&["ns-rescan".into(), path.clone()]));
    for id in 1..=count {
        let namespace = format!("{path}n{id}");
        steps.push(Step::Appears { path: namespace.clone().into() });
        steps.push(nvme(&["format".into(), namespace, "--ses=1".into(), "--force".into()]));
    }
    Ok(steps)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn controller() -> Controller {
        let ctrl = json!({"cntlid": 5, "oacs": 0x5e, "nn": 128, "tnvmcap": "7681501126656"});
        let ns = json!({"flbas": 1, "lbafs": [{"ds": 9}, {"ds": 12}]});
        Controller::of(&ctrl, &ns).unwrap()
    }

    #[test]
    fn a_drive_tells_what_it_can() {
        let want = Controller { id: 5, bytes: 7_681_501_126_656, namespaces_max: 128, block_bytes: 4096 };
        assert_eq!(controller(), want);
        let ns = json!({"flbas": 0, "lbafs": [{"ds": 9}]});
        let unable = Controller::of(&json!({"cntlid": 0, "oacs": 0x17, "nn": 1, "tnvmcap": 1}), &ns).unwrap();
        assert_eq!(divide(Path::new("/dev/nvme0"), unable, 1, &[]), Err(NamespaceError::Unable));
        // QEMU's controllers can manage namespaces, as they say, and have no capacity.
        let without = Controller { bytes: 0, ..controller() };
        assert_eq!(divide(Path::new("/dev/nvme0"), without, 1, &[]), Err(NamespaceError::NoCapacity));
        let tiny = Controller { bytes: 100 << 20, ..controller() };
        assert_eq!(divide(Path::new("/dev/nvme0"), tiny, 101, &[]), Err(NamespaceError::TooSmall(100 << 20, 101)));
        assert_eq!(Controller::of(&json!({"oacs": 8}), &ns), Err(NamespaceError::Unknown("nn")));
    }

    #[test]
    fn namespaces_share_the_drive() {
        let steps = divide(Path::new("/dev/nvme3"), controller(), 4, &["/dev/nvme3n7".into()]).unwrap();
        let said: Vec<String> = steps.iter().map(Step::to_string).collect();
        let blocks = 7_681_501_126_656u64 / 4 / (1 << 20) * 256;
        assert_eq!(said[0], "nvme delete-ns /dev/nvme3 --namespace-id=0xffffffff");
        assert_eq!(said[1..3], ["nvme ns-rescan /dev/nvme3", "wait until /dev/nvme3n7 is gone"]);
        let said = &said[2..];
        assert_eq!(said[1], format!("nvme create-ns /dev/nvme3 --nsze={blocks} --ncap={blocks} --block-size=4096"));
        assert_eq!(said[2], "nvme attach-ns /dev/nvme3 --namespace-id=1 --controllers=5");
        assert_eq!(said[9], "nvme ns-rescan /dev/nvme3");
        assert_eq!(said[10..12], ["wait for /dev/nvme3n1", "nvme format /dev/nvme3n1 --ses=1 --force"]);
        assert_eq!(said.len(), 1 + 8 + 1 + 8);
        for count in [0, 129] {
            assert_eq!(
                divide(Path::new("/dev/nvme3"), controller(), count, &[]),
                Err(NamespaceError::TooMany(128, count))
            );
        }
    }
}
