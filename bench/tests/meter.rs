//! The meter, alone in its process: memory is that of all threads.

use std::time::Duration;

use bench::Meter;
use bench::measure::monotonic;

#[test]
fn work_and_memory_show() {
    // What was there before and is gone does not show.
    drop(std::hint::black_box(vec![1u8; 256 << 20]));
    let meter = Meter::start();
    let mut memory = vec![1u8; 64 << 20];
    let until = monotonic() + Duration::from_millis(50);
    while monotonic() < until {
        memory.iter_mut().step_by(4096).for_each(|byte| *byte ^= 1);
    }
    drop(memory);
    let outcome = meter.finish(1, 2, 3);
    assert_eq!((outcome.events, outcome.bytes, outcome.answer), (1, 2, 3));
    assert!(outcome.seconds >= 0.05 && outcome.cpu_seconds > 0.0, "{outcome:?}");
    let more = outcome.peak_rss_bytes - outcome.start_rss_bytes;
    assert!((60 << 20..80 << 20).contains(&more), "{outcome:?}");
}
