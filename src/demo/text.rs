//! The bundled text, so that the demo needs nothing but its own executable.

use std::path::Path;
use std::{fs, io};

/// The files of `corpus/`, by name.
pub(super) const FILES: &[(&str, &str)] = &[
    ("speeches-01.txt", include_str!("../../corpus/speeches-01.txt")),
    ("speeches-02.txt", include_str!("../../corpus/speeches-02.txt")),
    ("speeches-03.txt", include_str!("../../corpus/speeches-03.txt")),
    ("speeches-04.txt", include_str!("../../corpus/speeches-04.txt")),
    ("speeches-05.txt", include_str!("../../corpus/speeches-05.txt")),
    ("speeches-06.txt", include_str!("../../corpus/speeches-06.txt")),
    ("speeches-07.txt", include_str!("../../corpus/speeches-07.txt")),
    ("speeches-08.txt", include_str!("../../corpus/speeches-08.txt")),
    ("speeches-09.txt", include_str!("../../corpus/speeches-09.txt")),
    ("speeches-10.txt", include_str!("../../corpus/speeches-10.txt")),
    ("speeches-11.txt", include_str!("../../corpus/speeches-11.txt")),
    ("speeches-12.txt", include_str!("../../corpus/speeches-12.txt")),
];

/// Writes every file into a new folder.
pub(super) fn write(folder: &Path) -> io::Result<()> {
    fs::create_dir(folder)?;
    FILES.iter().try_for_each(|(name, text)| fs::write(folder.join(name), text))
}
