//! Top words with text from memory: the PEs of the example, a spout and a sink without a disk.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pe::topology::{Param, Plan, Topology};
use pe::{
    Ctx, Line, LineRef, Next, Opening, Params, PartitionName, Position, Registry, Rows, Sink,
    Spout, SpoutError,
};

#[path = "../../../examples/top_words/pes.rs"]
mod pes;

/// Emits the lines of the parameter `texts`, a partition for each, `plays` times.
struct Texts {
    lines: Vec<String>,
    next: usize,
    end: usize,
}

impl Spout for Texts {
    type Out = Line;
    const PARAMS: &'static [Param] = &[
        Param::texts("texts", "the texts").required(),
        Param::integer("plays", "how often").default(1),
    ];

    fn partitions(params: &Params) -> Result<Vec<PartitionName>, SpoutError> {
        let texts = 0..params.texts("texts").len();
        Ok(texts.map(|at| PartitionName::new(at.to_string())).collect())
    }

    fn open(opening: Opening<'_>) -> Result<Self, SpoutError> {
        let at: usize = opening.name.as_str().parse().map_err(|_| SpoutError::new("no number"))?;
        let lines: Vec<_> =
            opening.params.texts("texts")[at].lines().map(ToOwned::to_owned).collect();
        let plays = usize::try_from(opening.params.integer("plays")).unwrap();
        let next = usize::try_from(opening.position.offset).unwrap();
        Ok(Self { end: lines.len() * plays, lines, next })
    }

    fn poll(&mut self, ctx: &mut Ctx<'_, Line>) -> Result<Next, SpoutError> {
        if self.next == self.end {
            return Ok(Next::Exhausted);
        }
        ctx.emit(LineRef { text: &self.lines[self.next % self.lines.len()] });
        self.next += 1;
        // Virtual time must pass, or everything is over before gossip has said a word.
        Ok(Next::Until(ctx.now() + Duration::from_micros(500)))
    }

    fn position(&self) -> Position {
        Position { offset: self.next as u64, plays: 0 }
    }
}

/// The rows of all table sinks of a world, by their first field.
pub(crate) type Table = Arc<Mutex<BTreeMap<String, String>>>;

struct TableSink(Table);

impl Sink for TableSink {
    fn write(&mut self, rows: &dyn Rows) -> Result<(), SpoutError> {
        let mut table = self.0.lock().unwrap();
        for at in 0..rows.len() {
            let (mut key, mut row) = (Vec::new(), Vec::new());
            rows.write_field(at, 0, &mut key);
            rows.write_json(at, &mut row);
            table.insert(String::from_utf8(key).unwrap(), String::from_utf8(row).unwrap());
        }
        Ok(())
    }
}

/// The program.
pub(crate) fn registry(table: &Table) -> Registry {
    let table = Arc::clone(table);
    Registry::new()
        .pe::<pes::Splitter>("splitter")
        .pe::<pes::Counter>("counter")
        .pe::<pes::TopK>("top-k")
        .pe::<pes::TopKMerge>("top-k-merge")
        .spout::<Texts>("texts")
        .sink("table", &[], Arc::new(move |_| Ok(Box::new(TableSink(Arc::clone(&table))))))
}

/// The topology over some texts, played so many times.
pub(crate) fn plan(registry: &Registry, texts: &[&str], plays: usize) -> Arc<Plan> {
    let text = include_str!("../../../examples/top_words/top-words.toml");
    let text = text.replace("text-files", "texts").replace(r#"params = { key = ["rank"] }"#, "");
    let texts = format!("texts = {texts:?}, plays = {plays}");
    let topology = Topology::parse(&text.replace(r#"paths = ["corpus/*.txt"]"#, &texts)).unwrap();
    Arc::new(topology.plan(&registry.catalog()).unwrap())
}

/// The ten most frequent words of some texts, by a plain count.
pub(crate) fn plain(texts: &[&str]) -> Vec<(String, u64)> {
    let mut counts = BTreeMap::<String, u64>::new();
    let is_inner = |c: char| c.is_alphanumeric() || c == '\'';
    for text in texts {
        for word in text.split(|c| !is_inner(c)).map(|word| word.trim_matches('\'')) {
            if !word.is_empty() {
                *counts.entry(word.to_ascii_lowercase()).or_default() += 1;
            }
        }
    }
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by(|one, two| two.1.cmp(&one.1).then_with(|| one.0.cmp(&two.0)));
    counts.truncate(10);
    counts
}

/// The table as the plain count writes it.
pub(crate) fn ranking(table: &Table) -> Vec<(String, u64)> {
    let rows: Vec<serde_json::Value> =
        table.lock().unwrap().values().map(|row| serde_json::from_str(row).unwrap()).collect();
    let mut rows: Vec<_> = rows
        .iter()
        .map(|row| {
            let number = |field: &str| row[field].as_u64().unwrap();
            (number("rank"), row["word"].as_str().unwrap().to_owned(), number("n"))
        })
        .collect();
    rows.sort();
    rows.into_iter().map(|(_, word, n)| (word, n)).collect()
}
