//! Secrets of services as part of the state.

use auth::cephx::monitor::ServiceSecrets;
use auth::cephx::rotating::RotatingSecrets;
use std::collections::BTreeMap;
use types::EntityType;
use wire::{DecodeError, Reader, Writer};

/// Services that have secrets: the monitors themselves, and every kind of daemon.
pub(crate) const SERVICES: [EntityType; 5] =
    [EntityType::AUTH, EntityType::MON, EntityType::MDS, EntityType::OSD, EntityType::MGR];

/// Writes the secrets by the services' numbers.
pub(super) fn put(w: &mut Writer, secrets: &ServiceSecrets) {
    w.count(secrets.len());
    for (service, secrets) in secrets {
        w.u8(service.0);
        w.put(secrets);
    }
}

/// Reads what [`put`] wrote.
pub(super) fn get(r: &mut Reader<'_>) -> Result<ServiceSecrets, DecodeError> {
    let secrets: BTreeMap<u8, RotatingSecrets> = r.get()?;
    Ok(secrets.into_iter().map(|(service, secrets)| (EntityType(service), secrets)).collect())
}
