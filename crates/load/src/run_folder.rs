//! The folder of a run: its request, its results, and everything needed to repeat it.

use bench::report::RunResult;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

/// The folder of one run.
#[derive(Clone, Debug)]
pub struct RunFolder {
    path: PathBuf,
}

/// The reason why the folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    #[error("{path} is there already; a run keeps its results in a folder of its own: choose another with --out")]
    Exists { path: PathBuf },
    #[error("cannot write {path}")]
    Write { path: PathBuf, source: std::io::Error },
}

impl RunFolder {
    /// Makes the folder, and the folders above it.
    pub fn create(path: &Path) -> Result<RunFolder, FolderError> {
        let failed = |source| FolderError::Write { path: path.to_owned(), source };
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).map_err(failed)?;
        }
        match std::fs::create_dir(path) {
            Ok(()) => Ok(RunFolder { path: path.to_owned() }),
            Err(e) if e.kind() == ErrorKind::AlreadyExists => Err(FolderError::Exists { path: path.to_owned() }),
            Err(e) => Err(failed(e)),
        }
    }

    /// Replaces a file; readers see the old one or the new one.
    pub fn write(&self, name: &str, text: &str) -> Result<(), FolderError> {
        let path = self.path.join(name);
        let failed = |source| FolderError::Write { path: path.clone(), source };
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).map_err(failed)?;
        }
        let beside = path.with_extension("new");
        let mut file = std::fs::File::create(&beside).map_err(failed)?;
        file.write_all(text.as_bytes()).map_err(failed)?;
        std::fs::rename(&beside, &path).map_err(failed)
    }

    /// Writes a result in its three forms.
    pub fn write_result(&self, result: &RunResult) -> Result<(), FolderError> {
        self.write("result.json", &(result.to_json() + "\n"))?;
        self.write("result.csv", &result.to_csv())?;
        self.write("report.md", &result.to_markdown())
    }

    /// Keeps a copy of a cluster's configuration.
    pub fn copy_configuration(&self, cluster: &str, configuration: &str) -> Result<(), FolderError> {
        let text = std::fs::read_to_string(configuration);
        let text = text.map_err(|source| FolderError::Write { path: configuration.into(), source })?;
        self.write(&format!("clusters/{cluster}/ceph.conf"), &text)
    }
}
