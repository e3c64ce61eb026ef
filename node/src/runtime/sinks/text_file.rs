//! Rows to a file, each on a line.
//!
//! A sink has as many instances as its topology says, on whichever nodes; two of them must not write
//! the same file. So unless there is only one, each puts its own number into the name.

use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use pe::{OpenSink, Param, SinkPlace, SpoutError};

use super::row_writer::{Format, RowWriter};

/// What can be told.
pub(in crate::runtime) const PARAMS: &[Param] = &[
    Param::text("path", "the file to write; several instances add their numbers to the name")
        .required(),
    Param::boolean("append", "keep what is in the file when the node starts").default(false),
    Param::text("format", "how a row is written").one_of(&["json", "tsv"]).default("json"),
];

/// The files that a node has begun. One that is opened again, since a view took the instance away and
/// gave it back, goes on where it was.
type Begun = Mutex<BTreeSet<PathBuf>>;

/// Opens the sinks `text-file`.
pub(in crate::runtime) fn opener() -> Arc<OpenSink> {
    let begun = Begun::default();
    Arc::new(move |place| {
        let format = match place.params.text("format") {
            "tsv" => Format::Tsv,
            _ => Format::Json,
        };
        let path = path(&place);
        let shown = path.display().to_string();
        let (file, is_torn) = open(path, place.params.boolean("append"), &begun)
            .map_err(|error| SpoutError::new(format!("{shown}: {error}")))?;
        Ok(Box::new(RowWriter::new(file, shown, format).behind(is_torn)))
    })
}

/// Opens a file; says as well whether its last line has no end, as one that was being written when a process was killed.
fn open(path: PathBuf, is_appended: bool, begun: &Begun) -> std::io::Result<(File, bool)> {
    let mut begun = begun.lock().unwrap_or_else(PoisonError::into_inner);
    if !is_appended && !begun.contains(&path) {
        File::create(&path)?;
    }
    let file = File::options().append(true).create(true).open(&path)?;
    let is_torn = is_torn(&path);
    begun.insert(path);
    Ok((file, is_torn))
}

/// Whether the last line of a file has no end. Of what cannot be read, or is no file with an end, nobody knows.
fn is_torn(path: &Path) -> bool {
    let look = || {
        let file = path.is_file().then(|| File::open(path).ok())??;
        let mut last = [0];
        file.read_exact_at(&mut last, file.metadata().ok()?.len().checked_sub(1)?).ok()?;
        Some(last != [b'\n'])
    };
    look().unwrap_or(false)
}

/// The file of an instance.
fn path(place: &SinkPlace<'_>) -> PathBuf {
    let path = Path::new(place.params.text("path"));
    let stem = path.file_stem().filter(|_| !place.is_alone);
    let Some(stem) = stem else { return path.to_owned() };
    let number = place.task.unwrap_or(place.container.into());
    let mut name = stem.to_owned();
    name.push(format!("-{}-{number}", place.node));
    if let Some(extension) = path.extension() {
        name.push(".");
        name.push(extension);
    }
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use membership::NodeId;
    use pe::topology::{ParamValue, Params};

    use super::super::row_writer::tests::prices;
    use super::*;
    use crate::runtime::spouts::scratch_dir::ScratchDir;

    fn params(path: &Path, more: &[(&'static str, ParamValue)]) -> Params {
        let path = ("path", path.to_str().unwrap().into());
        Params::new(PARAMS, more.iter().cloned().chain([path])).unwrap()
    }

    fn place(params: &Params) -> SinkPlace<'_> {
        SinkPlace {
            name: "out",
            params,
            node: NodeId(0xab),
            container: 3,
            task: Some(0),
            is_alone: true,
        }
    }

    fn write(open: &OpenSink, place: SinkPlace<'_>, item: &str) {
        let mut sink = open(place).unwrap();
        sink.write(&prices(&[(item, 1, None)])).unwrap();
        sink.flush().unwrap();
    }

    #[test]
    fn a_node_begins_a_file_anew_once() {
        let dir = ScratchDir::new();
        let params = params(&dir.path("out.tsv"), &[("format", "tsv".into())]);
        for round in ["first", "second"] {
            let open = opener();
            write(&*open, place(&params), round);
            write(&*open, place(&params), "again");
            let text = fs::read_to_string(dir.path("out.tsv")).unwrap();
            assert_eq!(text, format!("{round}\t1\t\nagain\t1\t\n"));
        }
    }

    #[test]
    fn append_keeps_what_is_there() {
        let dir = ScratchDir::new();
        fs::write(dir.path("out.json"), "kept\n").unwrap();
        let params = params(&dir.path("out.json"), &[("append", true.into())]);
        write(&*opener(), place(&params), "new");
        let text = fs::read_to_string(dir.path("out.json")).unwrap();
        assert_eq!(text, "kept\n{\"item\":\"new\",\"cents\":1,\"note\":null}\n");
    }

    #[test]
    fn a_line_that_was_being_written_when_a_process_was_killed_is_not_gone_on_with() {
        let dir = ScratchDir::new();
        fs::write(dir.path("out.tsv"), "whole\t1\t\nto").unwrap();
        let given = [("append", true.into()), ("format", "tsv".into())];
        let params = params(&dir.path("out.tsv"), &given);
        let open = opener();
        write(&*open, place(&params), "torn");
        write(&*open, place(&params), "next");
        let text = fs::read_to_string(dir.path("out.tsv")).unwrap();
        assert_eq!(text, "whole\t1\t\nto\ntorn\t1\t\nnext\t1\t\n");
    }

    #[test]
    fn instances_that_are_not_alone_have_files_of_their_own() {
        let named = |name: &str, task, is_alone| {
            let params = params(Path::new(name), &[]);
            path(&SinkPlace { task, is_alone, ..place(&params) }).to_str().unwrap().to_owned()
        };
        assert_eq!(named("d.x/out.json", Some(5), true), "d.x/out.json");
        assert_eq!(named("d.x/out.json", Some(5), false), "d.x/out-00000000000000ab-5.json");
        assert_eq!(named("d.x/out", None, false), "d.x/out-00000000000000ab-3");
    }

    #[test]
    fn what_cannot_be_opened_is_named() {
        let dir = ScratchDir::new();
        let refusal = |path: &Path| {
            let params = params(path, &[]);
            let refused = opener()(place(&params)).err();
            refused.unwrap().to_string().replace(dir.path("").to_str().unwrap(), "DIR/")
        };
        let missing = refusal(&dir.path("none/out.json"));
        assert_eq!(missing, "DIR/none/out.json: No such file or directory (os error 2)");
        let is_dir = refusal(&dir.path(""));
        assert_eq!(is_dir, "DIR/: Is a directory (os error 21)");
    }

    #[test]
    fn a_format_that_there_is_not_is_refused_with_the_topology() {
        let given = [("path", "a".into()), ("format", "csv".into())];
        let refused = Params::new(PARAMS, given).unwrap_err();
        let expected = "the parameter `format` must be `json` or `tsv`, not `csv`";
        assert_eq!(refused[0].message, expected);
    }
}
