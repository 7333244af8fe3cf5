//! Files of master keys, by which S3 gateways encrypt objects whose clients bring no key.

use anyhow::{Context, Result};
use s3::MasterKeys;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use zeroize::Zeroizing;

/// For those who open the file.
const HEAD: &str = "# Master keys of S3 gateways: the first one encrypts, all of them decrypt.\n\
                    # Without its key nobody can read an object again: keep a copy of this file elsewhere.\n";

/// Reads a file of master keys. The keys stand in no error.
pub fn read(path: &Path) -> Result<MasterKeys> {
    let text = std::fs::read_to_string(path).map(Zeroizing::new);
    let text = text.with_context(|| format!("cannot read the master keys in {}", path.display()))?;
    let mode = std::fs::metadata(path).map_or(0, |metadata| metadata.permissions().mode());
    if mode & 0o077 != 0 {
        tracing::warn!("others than its owner may read {}: 'chmod 600' mends that", path.display());
    }
    MasterKeys::parse(&text).with_context(|| format!("{} is no file of master keys", path.display()))
}

/// Makes a file with a new key, which only its owner may read. Fails where there is one.
pub fn make(path: &Path) -> Result<()> {
    let context = || format!("cannot write master keys to {}", path.display());
    let mut file = File::options().write(true).create_new(true).mode(0o600).open(path).with_context(context)?;
    let written = file
        .write_all(HEAD.as_bytes())
        .and_then(|()| file.write_all(MasterKeys::new_line().as_bytes()))
        .and_then(|()| file.sync_all());
    if let Err(error) = written {
        // Nothing was encrypted by a key that is half there.
        let _ = std::fs::remove_file(path);
        return Err(error).with_context(context);
    }
    let absolute = std::path::absolute(path).with_context(context)?;
    let folder = absolute.parent().unwrap_or(Path::new("/"));
    File::open(folder).and_then(|folder| folder.sync_all()).with_context(context)
}

/// Makes a file with a new key, if there is none.
pub fn make_if_absent(path: &Path) -> Result<()> {
    if path.try_exists().with_context(|| format!("cannot look for {}", path.display()))? { Ok(()) } else { make(path) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn a_file_is_made_once_and_read() {
        let scratch = Scratch::new();
        let path = scratch.path().join("keys");
        assert!(read(&path).is_err());
        make_if_absent(&path).expect("it is made");
        let first = std::fs::read_to_string(&path).expect("a file");
        assert_eq!(std::fs::metadata(&path).expect("a file").permissions().mode() & 0o777, 0o600);
        assert!(!read(&path).expect("keys").is_empty());
        make_if_absent(&path).expect("it is there");
        assert!(make(&path).is_err());
        assert_eq!(std::fs::read_to_string(&path).expect("a file"), first, "it stays as it is");
        std::fs::write(&path, "secret").expect("it is written");
        let error = format!("{:#}", read(&path).expect_err("no keys"));
        assert!(error.contains("line 1") && !error.contains("secret"), "{error}");
    }
}
