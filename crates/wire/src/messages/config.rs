//! Options that monitors hand out.

use crate::basic::AuthName;
use crate::envelope::{Header, Message};
use crate::{DecodeError, Reader, Rope, Writer};
use std::collections::BTreeMap;

/// All options that apply to the receiver. A client waits for its first `ConfigOptions`, even an empty one. Ceph's
/// `MConfig`; a `Config` in this crate is a messenger's.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct ConfigOptions {
    pub options: BTreeMap<String, String>,
}

impl Message for ConfigOptions {
    const TYPE: u16 = 62;

    fn encode_front(&self, w: &mut Writer) {
        w.put(&self.options);
    }

    fn decode(_: &Header, r: &mut Reader<'_>, _: &Rope) -> Result<ConfigOptions, DecodeError> {
        Ok(ConfigOptions { options: r.get()? })
    }
}

/// Asks for [`ConfigOptions`] on behalf of a daemon. Ceph's `MGetConfig`.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct GetConfig {
    pub name: AuthName,
    pub host: String,
    pub device_class: String,
}

impl Message for GetConfig {
    const TYPE: u16 = 63;

    fn encode_front(&self, w: &mut Writer) {
        w.put(&self.name);
        w.str(&self.host);
        w.str(&self.device_class);
    }

    fn decode(_: &Header, r: &mut Reader<'_>, _: &Rope) -> Result<GetConfig, DecodeError> {
        Ok(GetConfig { name: r.get()?, host: r.get()?, device_class: r.get()? })
    }
}
