//! Clicks joined with their impressions: the open ones of a task in a map, and a map of campaigns.

use pe::{Ctx, On, Pe, Removal};
use serde::{Deserialize, Serialize};

use super::super::ads::{
    Campaign, Click, ClickRef, Clicked, ClickedRef, Impression, ImpressionRef, Join,
};
use super::super::ledger;
use crate::data::ad_digest;
use crate::table::Table;

/// Knows the impressions of a task until they are clicked; a click may come first.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(in super::super) struct JoinBolt {
    joins: Table<u64, Join>,
}

impl JoinBolt {
    /// Changes what is known of an impression; what is complete is passed on and forgotten.
    #[inline(always)]
    fn learn(&mut self, id: u64, learn: impl FnOnce(&mut Join), ctx: &mut Ctx<'_, Clicked>) {
        let join = self.joins.value(id);
        learn(join);
        if let Some(campaign) = join.joined() {
            ctx.emit(ClickedRef { campaign });
            self.joins.remove(id);
        }
    }
}

impl Pe for JoinBolt {
    type In = (Impression, Click);
    type Out = Clicked;
}

impl On<Impression> for JoinBolt {
    fn on(&mut self, impression: ImpressionRef, ctx: &mut Ctx<'_, Clicked>) {
        self.learn(impression.id, |join| join.campaign = Some(impression.campaign), ctx);
    }
}

impl On<Click> for JoinBolt {
    fn on(&mut self, click: ClickRef, ctx: &mut Ctx<'_, Clicked>) {
        self.learn(click.id, |join| join.is_clicked = true, ctx);
    }
}

/// What is known of the campaigns of a task.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(in super::super) struct CampaignBolt {
    campaigns: Table<u64, Campaign>,
}

impl Pe for CampaignBolt {
    type In = (Impression, Clicked);
    type Out = ();

    fn on_remove(&mut self, reason: Removal, ctx: &mut Ctx<'_, ()>) {
        if reason == Removal::Moved {
            return; // It goes on elsewhere.
        }
        let parts = self.campaigns.iter().map(|(id, Campaign { impressions, clicks })| {
            let id = u32::try_from(id).expect("it was one when it came");
            (ad_digest(id, *impressions, *clicks), impressions + clicks)
        });
        let add = |(sum, events): (u64, u64), (part, more)| (sum.wrapping_add(part), events + more);
        let (answer, events) = parts.fold((0, 0), add);
        ledger::counted(self.campaigns.len(), events);
        ledger::answer(answer, ctx.now());
    }
}

impl On<Impression> for CampaignBolt {
    fn on(&mut self, impression: ImpressionRef, _: &mut Ctx<'_, ()>) {
        self.campaigns.value(impression.campaign.into()).impressions += 1;
    }
}

impl On<Clicked> for CampaignBolt {
    fn on(&mut self, clicked: ClickedRef, _: &mut Ctx<'_, ()>) {
        self.campaigns.value(clicked.campaign.into()).clicks += 1;
    }
}
