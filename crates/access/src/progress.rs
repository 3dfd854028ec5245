//! Progress bars on standard error.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use stdx::format_bytes;

/// Shown for what is large enough to take a while, on a terminal.
pub fn progress(length: Option<u64>) -> ProgressBar {
    const SHOWN_FROM: u64 = 64 << 20;
    if length.is_some_and(|length| length < SHOWN_FROM) {
        return ProgressBar::hidden();
    }
    let style = "{bar:40} {bytes}/{total_bytes} {bytes_per_sec} {eta}";
    let bar = ProgressBar::with_draw_target(length, ProgressDrawTarget::stderr());
    bar.with_style(ProgressStyle::with_template(style).expect("a constant template"))
        .with_message(length.map(format_bytes).unwrap_or_default())
}
