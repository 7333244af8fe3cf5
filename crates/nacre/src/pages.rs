//! Places of pages: files and the terminal.

use std::path::Path;

use anyhow::{Context, Result};

/// Columns where the terminal does not tell its width.
const WIDTH: usize = 100;

/// Replaces the file at `path`; readers see the old one or the new one.
pub fn write(path: &Path, text: &str) -> Result<()> {
    let beside = path.with_extension("new");
    let written = std::fs::write(&beside, text).and_then(|()| std::fs::rename(&beside, path));
    written.with_context(|| format!("cannot write {}", path.display()))
}

/// Columns of the terminal, as the shell's variable `COLUMNS` has them.
pub fn width() -> usize {
    std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok()).unwrap_or(WIDTH)
}
