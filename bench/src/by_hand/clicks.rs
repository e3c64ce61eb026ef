//! Clicks joined with their impressions.
//!
//! Both go to the owner of the impression. Campaigns are few, so each thread counts its own joins, and
//! the counts are added at the end.

use routing::Key;

use super::mesh::{Batch, FULL, Port, on_mesh};
use crate::data::{Ad, ad_digest, ads, share};
use crate::table::{Table, owner};
use crate::{Meter, Outcome, Spec};

/// [`ClickThrough`](crate::Workload::ClickThrough).
pub(super) fn run(spec: &Spec) -> Outcome {
    let ads = ads(spec);
    let meter = Meter::start();
    let parts = on_mesh(spec.threads, |me, port| {
        join(&ads[share(ads.len(), me, port.threads())], port).campaigns
    });
    let answer = digest(parts);
    meter.finish(ads.len() as u64, size_of_val(&**ads) as u64, answer)
}

/// Impressions and clicks, by column.
#[derive(Default)]
struct Ads {
    ids: Vec<u64>,
    /// [`CLICK`] where it is a click.
    campaigns: Vec<u32>,
}

/// No campaign has this number.
const CLICK: u32 = 0;

impl Batch for Ads {
    fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    fn clear(&mut self) {
        self.ids.clear();
        self.campaigns.clear();
    }
}

/// What is known of an impression.
#[derive(Default)]
struct Shown {
    /// 0 until it has been seen.
    campaign: u32,
    /// Clicks that came before it.
    early: u32,
}

/// Impressions and joined clicks.
type Counts = (u64, u64);

struct Joins {
    shown: Table<u64, Shown>,
    /// By the number of the campaign.
    campaigns: Vec<Counts>,
}

impl Joins {
    fn take(&mut self, ads: &Ads) {
        for (&id, &campaign) in ads.ids.iter().zip(&ads.campaigns) {
            let shown = self.shown.value(id);
            if campaign != CLICK {
                shown.campaign = campaign;
                let counts = of(&mut self.campaigns, campaign);
                counts.0 += 1;
                counts.1 += u64::from(shown.early);
            } else if shown.campaign == CLICK {
                shown.early += 1;
            } else {
                of(&mut self.campaigns, shown.campaign).1 += 1;
            }
        }
    }
}

fn of(campaigns: &mut Vec<Counts>, campaign: u32) -> &mut Counts {
    let index = campaign as usize;
    if index >= campaigns.len() {
        campaigns.resize(index + 1, Counts::default());
    }
    &mut campaigns[index]
}

fn join(ads: &[Ad], mut port: Port<Ads>) -> Joins {
    let mut joins = Joins { shown: Table::new(), campaigns: Vec::new() };
    for &ad in ads {
        let (id, campaign) = match ad {
            Ad::Impression { id, campaign } => (id, campaign),
            Ad::Click { id } => (id, CLICK),
        };
        let to = owner(id.hash(), port.threads());
        let batch = port.open(to);
        batch.ids.push(id);
        batch.campaigns.push(campaign);
        if batch.ids.len() == FULL {
            port.ship(to, |ads| joins.take(ads));
        }
    }
    port.finish(|ads| joins.take(ads));
    joins
}

fn digest(parts: Vec<Vec<Counts>>) -> u64 {
    let mut all = Vec::new();
    for part in parts {
        for (campaign, (impressions, clicks)) in (0..).zip(part) {
            let counts = of(&mut all, campaign);
            counts.0 += impressions;
            counts.1 += clicks;
        }
    }
    let seen = (0..).zip(all).filter(|(_, (impressions, _))| *impressions > 0);
    seen.fold(0, |sum, (campaign, (impressions, clicks))| {
        sum.wrapping_add(ad_digest(campaign, impressions, clicks))
    })
}
