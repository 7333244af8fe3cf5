//! A directory for one test, removed afterwards.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

pub struct Scratch(PathBuf);

impl Scratch {
    pub fn new() -> Scratch {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let unique = format!("nacre-test-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(unique);
        std::fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }

    /// A shell script that can be run at once. Another process writes it: while this one has it open for writing, a
    /// thread that starts something hands the open file on for a moment, and nobody can run it.
    pub fn program(&self, body: &str) -> PathBuf {
        let path = self.0.join("program");
        let mut shell = std::process::Command::new("/bin/sh");
        shell.args(["-c", "printf '%s\\n' '#!/bin/sh' \"$1\" > \"$0\" && chmod +x \"$0\""]).arg(&path).arg(body);
        assert!(shell.status().unwrap().success());
        path
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
