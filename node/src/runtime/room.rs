//! What a full disk means: whoever has to write waits until there is room again, and says so.
//!
//! What waits for the write waits as well: nothing that rests on it is acknowledged or sent, so sources pause. Any other
//! error is not waited for.

use std::io::{self, ErrorKind};
use std::path::Path;
use std::thread;
use std::time::Duration;

use super::RunError;

/// After this, it is tried again.
const AGAIN: Duration = Duration::from_secs(1);

/// Writes, again and again while the disk is full; each time all that has not been written. Gives nothing if the node ends
/// meanwhile.
///
/// # Errors
/// The disk failed otherwise.
pub(super) fn write(
    path: &Path,
    is_over: impl Fn() -> bool,
    mut write: impl FnMut() -> io::Result<()>,
) -> Option<Result<(), RunError>> {
    let mut was_full = false;
    loop {
        match write() {
            Ok(()) => {
                if was_full {
                    tracing::info!("there is room again for {}", path.display());
                }
                return Some(Ok(()));
            }
            Err(error) if is_full(&error) => {
                if !was_full {
                    tracing::error!(
                        "ENOSPC: sources paused: no room for {}, so nothing is acknowledged that rests on it",
                        path.display()
                    );
                }
                was_full = true;
                if is_over() {
                    return None;
                }
                #[expect(
                    clippy::disallowed_methods,
                    reason = "nothing says when there is room again"
                )]
                thread::sleep(AGAIN);
            }
            Err(error) => return Some(Err(RunError::disk(path, &error))),
        }
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
}
