//! One report, under the names that Ceph's have.

use anyhow::Result;
use host::panic_text;
use serde_json::{Value, json};
use std::backtrace::Backtrace;
use std::panic::PanicHookInfo;
use std::time::{SystemTime, UNIX_EPOCH};
use types::{UTime, Uuid};

/// Bounds of a report, which monitors take up to 64 KiB: characters of the message and of a line of the
/// backtrace, and its lines.
const MESSAGE_MAX: usize = 2048;
const LINE_MAX: usize = 200;
const LINES_MAX: usize = 200;

/// Cause and place of a panic.
pub struct Report {
    entity: String,
    timestamp: String,
    message: String,
    file: String,
    line: u32,
    thread: String,
    backtrace: Vec<String>,
}

impl Report {
    /// Of a panic that is happening in this thread.
    pub fn of(entity: &str, info: &PanicHookInfo<'_>) -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let location = info.location();
        Report {
            entity: entity.to_owned(),
            timestamp: timestamp(UTime::from_nanos(since.as_nanos() as u64)),
            message: shortened(panic_text(info.payload()), MESSAGE_MAX),
            file: location.map(|at| at.file().to_owned()).unwrap_or_default(),
            line: location.map_or(0, |at| at.line()),
            thread: std::thread::current().name().unwrap_or("unnamed").to_owned(),
            backtrace: lines(&Backtrace::force_capture().to_string()),
        }
    }

    /// A new name of it: time, and what tells it from others of that time.
    pub fn new_id(&self) -> Result<String> {
        let uuid = Uuid::from_entropy(machine::random_bytes()?);
        Ok(format!("{}_{uuid}", self.timestamp))
    }

    /// The report as monitors take it.
    pub fn to_json(&self, id: &str) -> Value {
        let facts = machine::host_facts();
        let fact = |name: &str| facts.get(name).cloned().unwrap_or_default();
        json!({
            "crash_id": id,
            "timestamp": self.timestamp,
            "entity_name": self.entity,
            "process_name": "sepiola",
            "ceph_version": env!("CARGO_PKG_VERSION"),
            "utsname_hostname": machine::hostname(),
            "utsname_sysname": fact("os"),
            "utsname_release": fact("kernel_version"),
            "utsname_version": fact("kernel_description"),
            "utsname_machine": std::env::consts::ARCH,
            "os_name": fact("distro_description"),
            "os_id": fact("distro"),
            "os_version_id": fact("distro_version"),
            "assert_msg": self.message,
            "assert_file": self.file,
            "assert_line": self.line,
            "assert_thread_name": self.thread,
            "backtrace": self.backtrace,
        })
    }
}

/// As Ceph writes it.
fn timestamp(time: UTime) -> String {
    time.to_iso().replace("+0000", "Z")
}

fn shortened(text: &str, characters: usize) -> String {
    text.chars().take(characters).collect()
}

fn lines(backtrace: &str) -> Vec<String> {
    backtrace.lines().take(LINES_MAX).map(|line| shortened(line.trim(), LINE_MAX)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_has_cephs_names_and_stays_below_what_monitors_take() {
        let report = Report {
            entity: "osd.3".to_owned(),
            timestamp: timestamp(UTime::from_nanos(1_800_000_000_123_456_789)),
            message: shortened(&"\u{1}".repeat(10_000), MESSAGE_MAX),
            file: "crates/pg/src/log.rs".to_owned(),
            line: 7,
            thread: "core 0".to_owned(),
            backtrace: lines(&format!("{}\n", "x".repeat(1_000)).repeat(1_000)),
        };
        assert!(report.new_id().unwrap().starts_with("2027-01-15T08:00:00.123456Z_"));
        let json = report.to_json("some id");
        assert!(json.to_string().len() < 60_000, "{}", json.to_string().len());
        assert_eq!((&json["entity_name"], &json["assert_line"]), (&json!("osd.3"), &json!(7)));
    }
}
