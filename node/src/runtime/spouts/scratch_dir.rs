//! A directory for a test, gone with it.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::{env, fs, process};

pub(in crate::runtime) struct ScratchDir(PathBuf);

impl ScratchDir {
    pub(in crate::runtime) fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = env::temp_dir().join(format!("starling-node-{}-{number}", process::id()));
        // Left behind by another process of the same number.
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("there is a place for temporary files");
        Self(path)
    }

    pub(in crate::runtime) fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for ScratchDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
