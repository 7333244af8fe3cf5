//! Many devices that come in at once.

use crate::{BuildError, CrushMap, Location};

/// A device that comes in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewDevice {
    pub id: i32,
    /// Weight in 16.16 fixed point. Used only if there is a `location`.
    pub weight: u32,
    /// Its place; `None` leaves it where it is.
    pub location: Option<Location>,
    /// Its class; `None` leaves it with its present one, or without one.
    pub class: Option<String>,
}

impl CrushMap {
    /// Puts devices at their locations, as [`CrushMap::insert_item`] does under the name `osd.N`, and binds them to
    /// their classes, as [`CrushMap::set_device_class`] does. Work in proportion to the whole hierarchy is done once
    /// for all of them.
    ///
    /// Returns the devices that could not be placed, with the reasons: they are left out as if they had not been named.
    pub fn add_devices(&mut self, devices: &[NewDevice]) -> Vec<(i32, BuildError)> {
        let mut left: Vec<&NewDevice> = devices.iter().collect();
        let mut refused = Vec::new();
        while !left.is_empty() {
            let mut next = self.clone();
            let added =
                left.iter().try_for_each(|device| next.add_device(device).map_err(|reason| (device.id, reason)));
            // Shadows weigh no more than their originals, so devices are the ones that fail.
            let built = added.and_then(|()| next.rebuild_shadows().map_err(|reason| (left[left.len() - 1].id, reason)));
            match built {
                Ok(()) => {
                    next.finalize();
                    *self = next;
                    break;
                }
                Err((id, reason)) => {
                    left.retain(|device| device.id != id);
                    refused.push((id, reason));
                }
            }
        }
        refused
    }

    /// Adds a device, and leaves shadow trees to their rebuild. After an error the map is of no use.
    fn add_device(&mut self, device: &NewDevice) -> Result<(), BuildError> {
        if let Some(location) = &device.location {
            self.insert(device.id, device.weight, &format!("osd.{}", device.id), location, true)?;
        }
        if let Some(class) = &device.class {
            self.bind_class(device.id, class)?;
        }
        Ok(())
    }
}
