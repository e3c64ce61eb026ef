//! Try.
use std::time::Instant;
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let first: u64 = args[1].parse().unwrap();
    let count: u64 = args[2].parse().unwrap();
    let mut campaign = sim::Campaign::default();
    for a in &args[3..] {
        if let Some(f) = a.strip_prefix("break=") { campaign.flaw = Some(f.parse().unwrap()); }
        if let Some(f) = a.strip_prefix("faults=") { campaign.faults = f.split(',').filter(|s| !s.is_empty()).map(|s| s.parse().unwrap()).collect(); }
    }
    let begin = Instant::now();
    let mut totals = sim::Totals::default();
    let mut failed = std::collections::BTreeMap::new();
    for seed in first..first + count {
        let run = campaign.run(seed);
        totals.add(&run.totals);
        if let Some(v) = &run.violation {
            let e = failed.entry(v.invariant).or_insert((0u32, seed, String::new()));
            e.0 += 1;
            if e.2.is_empty() { e.2 = v.to_string(); }
            if args.iter().any(|a| a == "shrink") {
                let s = campaign.shrink(&run);
                println!("seed {seed}: {}", s.violation.as_ref().unwrap());
                for f in &s.faults { println!("  {f}"); }
                let lines: Vec<_> = s.trace.lines().collect();
                for l in &lines[lines.len().saturating_sub(args.iter().find_map(|a| a.strip_prefix("lines=")).map_or(80, |n| n.parse().unwrap()))..] { println!("{l}"); }
                break;
            }
        }
        if args.iter().any(|a| a == "trace") { println!("{}", run.trace); }
    }
    println!("{totals:?}");
    println!("{:?} in all, {:?} each", begin.elapsed(), begin.elapsed() / count as u32);
    for (k, v) in failed { println!("{k}: {} first seed {} {}", v.0, v.1, v.2.chars().take(600).collect::<String>()); }
}
