//! Clicks joined with the impressions that they belong to: two streams, one instance for each impression.

use std::ops::Range;
use std::sync::Arc;

use pe::{
    Ctx, Event, Next, On, Opening, Param, Params, PartitionName, Pe, Position, Removal, Spout,
    SpoutError,
};
use serde::{Deserialize, Serialize};

use super::ledger;
use super::sources::{PARTS, POLL, behind, other_data, part, parts};
use crate::data::{self, Ad, Data, ad_digest};

/// An ad of a campaign was shown.
#[derive(Event)]
pub(super) struct Impression {
    pub(super) id: u64,
    pub(super) campaign: u32,
}

/// It was clicked.
#[derive(Event)]
pub(super) struct Click {
    pub(super) id: u64,
}

/// A click, with the campaign of the ad.
#[derive(Event)]
pub(super) struct Clicked {
    pub(super) campaign: u32,
}

/// A part of what happened to ads.
#[derive(Debug)]
pub(super) struct Ads {
    ads: Arc<Vec<Ad>>,
    start: usize,
    left: Range<usize>,
}

impl Spout for Ads {
    type Out = (Impression, Click);
    const PARAMS: &'static [Param] = &[PARTS];

    fn partitions(params: &Params) -> Result<Vec<PartitionName>, SpoutError> {
        Ok(parts(params))
    }

    fn open(opening: Opening<'_>) -> Result<Self, SpoutError> {
        let Data::Ads(ads) = ledger::data() else { return Err(other_data()) };
        let (part, parts) = part(&opening)?;
        let share = data::share(ads.len(), part, parts);
        let (start, left) = (share.start, behind(share, opening.position));
        Ok(Self { ads: Arc::clone(ads), start, left })
    }

    fn poll(&mut self, ctx: &mut Ctx<'_, (Impression, Click)>) -> Result<Next, SpoutError> {
        ledger::begin(ctx.now());
        let end = self.left.end.min(self.left.start + POLL);
        let now = &self.ads[self.left.start..end];
        for &ad in now {
            match ad {
                Ad::Impression { id, campaign } => ctx.emit(ImpressionRef { id, campaign }),
                Ad::Click { id } => ctx.emit(ClickRef { id }),
            }
        }
        ledger::read(now.len(), size_of_val(now));
        self.left.start = end;
        Ok(if self.left.is_empty() { Next::Exhausted } else { Next::More })
    }

    fn position(&self) -> Position {
        Position { offset: (self.left.start - self.start) as u64, plays: 0 }
    }
}

/// Knows one impression until it is clicked; the click may come first.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Join {
    pub(super) campaign: Option<u32>,
    pub(super) is_clicked: bool,
}

impl Join {
    /// The campaign, if both have come.
    pub(super) fn joined(&self) -> Option<u32> {
        self.campaign.filter(|_| self.is_clicked)
    }

    fn conclude(&self, ctx: &mut Ctx<'_, Clicked>) {
        if let Some(campaign) = self.joined() {
            ctx.emit(ClickedRef { campaign });
            // No impression is clicked twice.
            ctx.close();
        }
    }
}

impl Pe for Join {
    type In = (Impression, Click);
    type Out = Clicked;
}

impl On<Impression> for Join {
    fn on(&mut self, impression: ImpressionRef, ctx: &mut Ctx<'_, Clicked>) {
        self.campaign = Some(impression.campaign);
        self.conclude(ctx);
    }
}

impl On<Click> for Join {
    fn on(&mut self, _: ClickRef, ctx: &mut Ctx<'_, Clicked>) {
        self.is_clicked = true;
        self.conclude(ctx);
    }
}

/// What is known of one campaign.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Campaign {
    pub(super) impressions: u64,
    pub(super) clicks: u64,
}

impl Pe for Campaign {
    type In = (Impression, Clicked);
    type Out = ();

    fn on_remove(&mut self, reason: Removal, ctx: &mut Ctx<'_, ()>) {
        if reason == Removal::Moved {
            return; // It goes on elsewhere.
        }
        let campaign = ctx.key().and_then(|key| key.unsigned(0));
        if let Some(campaign) = campaign.and_then(|campaign| u32::try_from(campaign).ok()) {
            ledger::counted(1, self.impressions + self.clicks);
            ledger::answer(ad_digest(campaign, self.impressions, self.clicks), ctx.now());
        }
    }
}

impl On<Impression> for Campaign {
    fn on(&mut self, _: ImpressionRef, _: &mut Ctx<'_, ()>) {
        self.impressions += 1;
    }
}

impl On<Clicked> for Campaign {
    fn on(&mut self, _: ClickedRef, _: &mut Ctx<'_, ()>) {
        self.clicks += 1;
    }
}
