//! A cluster of processes by hand: where its nodes are, and what all of them run.

use std::path::{Path, PathBuf};

use super::{Node, agree, corpus, flow, folder, starling, top_words};

/// Where the nodes of a test are, and what all of them run.
pub(crate) struct Ground {
    pub(crate) folder: PathBuf,
    pub(crate) topology: PathBuf,
    pub(crate) expected_nodes: usize,
}

impl Ground {
    /// Nodes that play text for ever.
    pub(crate) fn new(test: &str, expected_nodes: usize) -> Self {
        let folder = folder(test);
        let topology = top_words(&folder, &corpus(), ", repeat = 1000000");
        Self { folder, topology, expected_nodes }
    }

    /// Starts a node that forms the cluster, or joins it by another.
    #[track_caller]
    pub(crate) fn start(&self, name: &str, entry: Option<&Node>) -> Node {
        self.start_with(name, entry, &[])
    }

    /// The same, told something more.
    #[track_caller]
    pub(crate) fn start_with(&self, name: &str, entry: Option<&Node>, more: &[&str]) -> Node {
        let expected = self.expected_nodes.to_string();
        let mut arguments = vec!["--topology", path(&self.topology), "--containers", "1"];
        arguments.extend(["--expected-nodes", &expected]);
        match entry {
            Some(entry) => arguments.extend(["--join", &entry.addresses.control]),
            None => arguments.push("--bootstrap"),
        }
        arguments.extend(more);
        Node::start(starling(), &self.folder.join(name), arguments)
    }

    /// As many nodes as are expected, by the names a, b, c, ..., that have handled events together; all join by
    /// the first.
    #[track_caller]
    pub(crate) fn nodes(&self) -> Vec<Node> {
        let mut nodes: Vec<Node> = Vec::new();
        for name in ('a'..).take(self.expected_nodes) {
            let node = self.start(&name.to_string(), nodes.first());
            nodes.push(node);
        }
        let all: Vec<_> = nodes.iter().collect();
        agree(&all);
        flow(&all);
        nodes
    }
}

/// A path of a test as it is typed.
pub(crate) fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Word count at least once over the files `text-*.txt` of a folder; what it comes to is in files beside them.
pub(crate) fn word_count(folder: &Path) -> String {
    let (text, out) = (folder.join("text-*.txt"), folder.join("out.tsv"));
    format!(
        r#"name = "words"
delivery = "at-least-once"
max_pending = 200

[spout.lines]
type = "text-files"
params = {{ paths = [{:?}] }}
emits = "lines"

[pe.split]
type = "splitter"
input = [{{ stream = "lines", grouping = "shuffle" }}]
parallelism = 3
emits = "words"

[pe.count]
type = "counter"
input = [{{ stream = "words", key = ["text"] }}]
emits = "counts"

[pe.out]
type = "text-file"
parallelism = 6
input = [{{ stream = "counts", grouping = "shuffle" }}]
params = {{ path = {:?}, append = true, format = "tsv" }}
"#,
        path(&text),
        path(&out),
    )
}
