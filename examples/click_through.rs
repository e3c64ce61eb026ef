//! Click-through rate: two event types on one keyed PE.
//!
//! The example of S4's paper: how often was an ad clicked, of the times it was shown? Impressions and
//! clicks are different events on different streams; both go to the instance of their ad, which
//! therefore needs no join. The log is synthetic: `generate` writes it, from a seed.
//!
//! ```text
//! cargo run --release --example click_through -- generate clicks.log
//! cargo run --release --example click_through -- node --bootstrap \
//!     --topology examples/click-through.toml
//! ```
//!
//! Then `http://127.0.0.1:7700/api/v1/tables/rates` has a row for each ad.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

use serde::{Deserialize, Serialize};
use starling::{App, Ctx, Event, Line, LineRef, On, Pe};

/// An ad was shown.
#[derive(Event)]
struct Impression {
    ad: u32,
}

/// An ad that was shown was clicked.
#[derive(Event)]
struct Click {
    ad: u32,
}

/// What is known of an ad so far.
#[derive(Event)]
struct Rate {
    ad: u32,
    impressions: u64,
    clicks: u64,
    rate: f64,
}

/// Reads the lines of the log; those it does not understand are counted.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Parser;

impl Pe for Parser {
    type In = Line;
    type Out = (Impression, Click);
}

impl On<Line> for Parser {
    fn on(&mut self, line: LineRef<'_>, ctx: &mut Ctx<'_, (Impression, Click)>) {
        let mut fields = line.text.split_ascii_whitespace();
        let (_, kind, ad) = (fields.next(), fields.next(), fields.next());
        let ad = ad.and_then(|ad| ad.strip_prefix("ad=")?.parse().ok());
        match (kind, ad) {
            (Some("impression"), Some(ad)) => ctx.emit(ImpressionRef { ad }),
            (Some("click"), Some(ad)) => ctx.emit(ClickRef { ad }),
            _ => ctx.discard("not understood"),
        }
    }
}

/// The click-through rate of one ad: there is an instance for each.
#[derive(Debug, Default, Serialize, Deserialize)]
struct ClickThrough {
    impressions: u64,
    clicks: u64,
}

impl ClickThrough {
    #[expect(clippy::cast_precision_loss, reason = "a rate needs no more than 52 bits")]
    fn emit(&self, ad: u32, ctx: &mut Ctx<'_, Rate>) {
        let (impressions, clicks) = (self.impressions, self.clicks);
        // A click may overtake its impression: the two come by different streams.
        let rate = if impressions == 0 { 0.0 } else { clicks as f64 / impressions as f64 };
        ctx.emit(RateRef { ad, impressions, clicks, rate });
    }
}

impl Pe for ClickThrough {
    type In = (Impression, Click);
    type Out = Rate;
}

impl On<Impression> for ClickThrough {
    fn on(&mut self, impression: ImpressionRef, ctx: &mut Ctx<'_, Rate>) {
        self.impressions += 1;
        self.emit(impression.ad, ctx);
    }
}

impl On<Click> for ClickThrough {
    fn on(&mut self, click: ClickRef, ctx: &mut Ctx<'_, Rate>) {
        self.clicks += 1;
        self.emit(click.ad, ctx);
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, command, path] = &*arguments
        && command == "generate"
    {
        return match File::create(path).and_then(|file| generate(BufWriter::new(file))) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                let _ = writeln!(io::stderr(), "cannot write {path}: {error}");
                ExitCode::FAILURE
            }
        };
    }
    App::new("click-through").pe::<Parser>("parser").pe::<ClickThrough>("click-through").main()
}

/// How many ads there are.
const ADS: u64 = 50;
/// How many times an ad is shown.
const IMPRESSIONS: u32 = 50_000;
/// Every log is the same log.
const SEED: u64 = 20_261_130;

/// Writes a log: a line per impression and per click, and now and then one that is damaged.
fn generate(mut log: impl Write) -> io::Result<()> {
    let mut chance = Chance(SEED);
    for second in 0..IMPRESSIONS {
        // The product of two uniform numbers: few ads are shown often, most of them rarely.
        let ad = chance.below(ADS) * chance.below(ADS) / ADS;
        writeln!(log, "{second} impression ad={ad}")?;
        // The higher its number, the better an ad is.
        if chance.below(4 * ADS) <= ad {
            writeln!(log, "{second} click ad={ad}")?;
        }
        if chance.below(1_000) == 0 {
            writeln!(log, "{second} impress")?;
        }
    }
    log.flush()
}

/// A generator of random numbers (SplitMix64): small, and the same everywhere.
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (bits ^ (bits >> 31)) % limit
    }
}
