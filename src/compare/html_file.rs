//! The file of a report, which is there whole or not at all.
//!
//! Runs take minutes, and a report that cannot be written after them is worth nothing: so the file is opened before
//! the first run, under a name of its own beside the one asked for, and gets that one when all is in it.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use starling::cli::{Exit, Failure};

/// A file that is not there yet.
#[derive(Debug)]
pub(super) struct HtmlFile {
    path: PathBuf,
    temporary: PathBuf,
    file: File,
}

impl HtmlFile {
    /// Makes sure that there can be such a file.
    pub(super) fn new(path: &Path) -> Result<Self, Failure> {
        let mut name = path.file_name().ok_or_else(|| failed(path, "it has no name"))?.to_owned();
        name.push(format!(".{}.tmp", std::process::id()));
        let temporary = path.with_file_name(name);
        if path.is_dir() {
            return Err(failed(path, "it is a folder"));
        }
        let file = File::create(&temporary).map_err(|error| failed(path, error))?;
        Ok(Self { path: path.to_owned(), temporary, file })
    }

    /// Writes the report and gives it its name.
    pub(super) fn write(mut self, page: &str) -> Result<(), Failure> {
        let written = self.file.write_all(page.as_bytes()).and_then(|()| self.file.sync_all());
        let named = written.and_then(|()| fs::rename(&self.temporary, &self.path));
        named.map_err(|error| failed(&self.path, error))
    }
}

impl Drop for HtmlFile {
    fn drop(&mut self) {
        // Gone already if it got its name.
        let _ = fs::remove_file(&self.temporary);
    }
}

fn failed(path: &Path, why: impl std::fmt::Display) -> Failure {
    Failure::new(Exit::Failure, format!("cannot write {}: {why}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_there_whole_or_not_at_all() {
        let folder = crate::node_process::new_folder("html").unwrap();
        let path = folder.join("report.html");
        let names = || -> Vec<_> {
            fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect()
        };
        drop(HtmlFile::new(&path).unwrap());
        assert!(names().is_empty(), "{:?}", names());
        fs::write(&path, "an older one").unwrap();
        let file = HtmlFile::new(&path).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "an older one");
        file.write("<p>new</p>").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "<p>new</p>");
        assert_eq!(names(), ["report.html"]);
        let refused = HtmlFile::new(&folder.join("no-folder/report.html")).unwrap_err();
        assert!(refused.to_string().contains("cannot write"), "{refused}");
        assert!(HtmlFile::new(&folder).is_err());
        fs::remove_dir_all(folder).unwrap();
    }
}
