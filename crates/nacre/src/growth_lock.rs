//! One at a time changes which daemons a cluster has, whether it runs or not.

use crate::layout::Layout;
use anyhow::{Context, Result};
use rustix::fs::{FlockOperation, flock};
use std::fs::File;

/// The right to change it. Whoever has it reads the state file anew: another may have changed that before.
pub struct GrowthLock {
    _file: File,
}

impl GrowthLock {
    /// Errors: somebody else has it.
    pub fn take(layout: &Layout) -> Result<GrowthLock> {
        let path = layout.run_dir().join("growth.lock");
        let file = File::create(path).context("cannot take the lock for adding daemons")?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)
            .context("somebody else is adding daemons to this cluster; try again when that is done")?;
        Ok(GrowthLock { _file: file })
    }
}
