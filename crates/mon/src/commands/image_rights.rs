//! Rights to have work on block images done: those for the manager, whoever is asked.

use super::context::Context;
use super::{Reply, refuse};
use crate::identity::Standing;
use auth::Granted;
use auth::caps::{Access, ImageCaps};
use types::Errno;

/// Returns the asker's rights to have work on images done.
pub(super) fn on_images(c: &Context<'_>) -> ImageCaps {
    let who = c.request.who;
    if c.request.to_manager || who.granted == Granted::Everything {
        return ImageCaps::of(&who.granted);
    }
    // `ceph` asks a monitor, whose session has the capabilities for monitors.
    let known = c.state.auth.get(&who.name.to_string()).filter(|_| who.standing == Standing::Proven);
    let caps = known.and_then(|entry| entry.caps.get("mgr")).cloned().unwrap_or_default();
    ImageCaps::of(&Granted::Text(caps))
}

/// Returns the refusal of an asker who may do nothing at all with images. Tools know it by its beginning.
pub(super) fn no_right_to_images() -> Reply {
    let hint = "the key has no capability for images at the manager; `ceph auth caps` gives it one: mgr 'profile rbd'";
    Reply::error(Errno::EACCES, format!("access denied: {hint}"))
}

/// Refuses an asker who may not do this with images of that pool and namespace.
pub(super) fn authorize(c: &Context<'_>, needs: Access, pool: &str, namespace: &str) -> Result<(), Reply> {
    let caps = on_images(c);
    if !caps.allows_somewhere(needs) {
        return Err(no_right_to_images());
    }
    match caps.allows(needs, pool, namespace) {
        true => Ok(()),
        false => refuse(Errno::EACCES, format!("not authorized on pool={pool}, namespace={namespace}")),
    }
}

/// Refuses all askers but workers, who have a right to all images.
pub(super) fn authorize_worker(c: &Context<'_>) -> Result<(), Reply> {
    if on_images(c).allows_everywhere(Access::RW) { Ok(()) } else { Err(no_right_to_images()) }
}
