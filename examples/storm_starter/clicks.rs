//! The click-through join as bolts: clicks wait for their impressions, and what comes of the two is anchored to
//! both.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use starling::storm::{Bolt, Collector, Execute};
use starling::{Anchor, Event, Line, LineRef};

/// An ad was shown, as this impression of it.
#[derive(Event)]
pub(crate) struct Impression {
    pub(crate) id: u64,
    pub(crate) ad: String,
}

/// An impression was clicked.
#[derive(Event)]
pub(crate) struct Click {
    pub(crate) id: u64,
}

/// Both of them.
#[derive(Event)]
pub(crate) struct Clicked {
    pub(crate) id: u64,
    pub(crate) ad: String,
}

/// Lines such as `impression 17 shoes` and `click 17`; anything else is given up as not understood.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Parse;

impl Bolt for Parse {
    type In = Line;
    type Out = (Impression, Click);
}

impl Execute<Line> for Parse {
    fn execute(
        &mut self,
        line: LineRef<'_>,
        collector: &mut Collector<'_, '_, (Impression, Click)>,
    ) {
        let mut fields = line.text.split_ascii_whitespace();
        let kind = fields.next();
        let id = fields.next().and_then(|id| id.parse().ok());
        match (kind, id, fields.next()) {
            (Some("impression"), Some(id), Some(ad)) => collector.emit(ImpressionRef { id, ad }),
            (Some("click"), Some(id), None) => collector.emit(ClickRef { id }),
            _ => collector.discard("not understood"),
        }
    }
}

/// Joins by the id of the impression; each waits for the other, with its anchor.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Join {
    impressions: BTreeMap<u64, (Anchor, String)>,
    clicks: BTreeMap<u64, Anchor>,
}

impl Join {
    fn tell(
        id: u64,
        ad: &str,
        mut impression: Anchor,
        mut click: Anchor,
        collector: &mut Collector<'_, '_, Clicked>,
    ) {
        collector.emit_anchored(&mut [&mut impression, &mut click], ClickedRef { id, ad });
        collector.ack(impression);
        collector.ack(click);
    }
}

impl Bolt for Join {
    type In = (Impression, Click);
    type Out = Clicked;

    /// Impressions that nobody has clicked are done with.
    fn cleanup(&mut self, collector: &mut Collector<'_, '_, Clicked>) {
        let left = std::mem::take(&mut self.impressions).into_values().map(|(anchor, _)| anchor);
        left.chain(std::mem::take(&mut self.clicks).into_values())
            .for_each(|anchor| collector.ack(anchor));
    }

    /// So are those that have waited for long enough: a tree has to come to an end.
    fn tick(&mut self, collector: &mut Collector<'_, '_, Clicked>) {
        self.cleanup(collector);
    }
}

impl Execute<Impression> for Join {
    fn execute(
        &mut self,
        impression: ImpressionRef<'_>,
        collector: &mut Collector<'_, '_, Clicked>,
    ) {
        let (id, anchor) = (impression.id, collector.anchor());
        match self.clicks.remove(&id) {
            Some(click) => Self::tell(id, impression.ad, anchor, click, collector),
            None => {
                let known = self.impressions.insert(id, (anchor, impression.ad.to_owned()));
                // The same again, since something of its tree was lost.
                if let Some((anchor, _)) = known {
                    collector.ack(anchor);
                }
            }
        }
    }
}

impl Execute<Click> for Join {
    fn execute(&mut self, click: ClickRef, collector: &mut Collector<'_, '_, Clicked>) {
        let (id, anchor) = (click.id, collector.anchor());
        match self.impressions.remove(&id) {
            Some((impression, ad)) => Self::tell(id, &ad, impression, anchor, collector),
            None => {
                if let Some(anchor) = self.clicks.insert(id, anchor) {
                    collector.ack(anchor);
                }
            }
        }
    }
}
