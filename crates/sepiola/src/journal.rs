//! Log lines for the journal of systemd: each begins with its priority, as `sd-daemon(3)` has it, and has
//! neither time nor colours, which the journal adds itself. `journalctl -p warning` then finds warnings.

use std::fmt;
use std::os::unix::fs::MetadataExt;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::FmtContext;
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, Writer};
use tracing_subscriber::registry::LookupSpan;

/// Beginning of a line of priority `err`.
pub const ERROR: &str = "<3>";

/// True if standard error is the journal's socket: programs that this one starts may have inherited the
/// variable, but not the file.
pub fn is_standard_error() -> bool {
    let named = std::env::var("JOURNAL_STREAM").unwrap_or_default();
    let file = std::fs::metadata("/proc/self/fd/2");
    file.is_ok_and(|file| is_stream(&named, file.dev(), file.ino()))
}

/// The journal names its socket by `DEVICE:INODE`.
fn is_stream(named: &str, device: u64, inode: u64) -> bool {
    named == format!("{device}:{inode}")
}

/// The priority of syslog.
fn priority(level: Level) -> u8 {
    match level {
        Level::ERROR => 3,
        Level::WARN => 4,
        Level::INFO => 6,
        _ => 7,
    }
}

/// Lines of the form `<4>osd: text key=value`.
#[derive(Debug, Clone, Copy)]
pub struct JournalLines;

impl<S, N> FormatEvent<S, N> for JournalLines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let metadata = event.metadata();
        write!(writer, "<{}>{}: ", priority(*metadata.level()), metadata.target())?;
        context.field_format().format_fields(writer.by_ref(), event)?;
        writeln!(writer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{self, Write};
    use std::sync::{Arc, Mutex};
    use tracing_subscriber::prelude::*;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_line_for_the_journal_begins_with_its_priority() {
        let lines = Lines::default();
        let writer = lines.clone();
        let layer = tracing_subscriber::fmt::layer().with_writer(move || writer.clone());
        let layer = layer.with_ansi(false).event_format(JournalLines);
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            tracing::error!(target: "osd", osd = 3, "the disk is gone");
            tracing::warn!(target: "pg", "a copy is bad");
        });
        let text = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
        assert_eq!(text, "<3>osd: the disk is gone osd=3\n<4>pg: a copy is bad\n");
    }

    #[test]
    fn the_journal_is_recognised_by_its_socket_only() {
        assert!(is_stream("9:1234", 9, 1234));
        assert!(!is_stream("9:1234", 9, 1235) && !is_stream("", 9, 1234));
    }
}
