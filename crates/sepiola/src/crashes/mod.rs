//! Crash reports: a panic leaves one in the daemon's directory, and the next run posts it to the monitors,
//! where `ceph crash ls` shows it and health says RECENT_CRASH.

mod place;
mod post;
mod report;

pub use post::{post, post_as_admin};

use place::{EXTENSION, kept, place};
use report::Report;
use std::io::Write;
use std::panic::{self, PanicHookInfo};
use std::path::{Path, PathBuf};

/// Reports that wait to be posted; a daemon in a crash loop adds no more.
const KEPT_MAX: usize = 16;
const MODE: u32 = 0o600;

/// From here on a panic leaves a report in that directory, besides its message. `entity` is what has crashed:
/// the daemon, or the daemons of this process.
pub fn keep(directory: &Path, entity: &str) {
    // The working directory may be another one when it happens.
    let directory = std::path::absolute(directory).unwrap_or_else(|_| directory.to_owned());
    let (place, entity, before) = (place(&directory), entity.to_owned(), panic::take_hook());
    panic::set_hook(Box::new(move |info| {
        before(info);
        let told = match keep_one(&place, &entity, info) {
            Ok(Some(path)) => format!("the crash is described in {}", path.display()),
            Ok(None) => format!("{KEPT_MAX} reports of crashes wait in {}", place.display()),
            Err(error) => format!("the crash could not be described: {error:#}"),
        };
        // A panic here would abort the process.
        let _ = writeln!(std::io::stderr(), "{told}");
    }));
}

fn keep_one(
    place: &Path,
    entity: &str,
    info: &PanicHookInfo<'_>,
) -> anyhow::Result<Option<PathBuf>> {
    machine::create_private(place)?;
    if kept(place)?.len() >= KEPT_MAX {
        return Ok(None);
    }
    let report = Report::of(entity, info);
    let id = report.new_id()?;
    // The id contains points, so that nothing may be taken for its extension.
    let path = place.join(format!("{id}.{EXTENSION}"));
    machine::write_file(&path, &report.to_json(&id).to_string(), MODE)?;
    Ok(Some(path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;
    use std::fs;
    use std::process::{Command, Stdio};

    /// Set in the process that is to crash: the directory of its report.
    const DIRECTORY: &str = "SEPIOLA_TEST_OF_CRASHES";

    /// A process of its own, since the hook is one for all threads. Does nothing in the first process.
    #[test]
    fn crashing() {
        let Some(directory) = std::env::var_os(DIRECTORY) else { return };
        keep(Path::new(&directory), "osd.3");
        panic!("the log of osd.3 lacks {}", 7);
    }

    fn crash_in(directory: &Path) {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "crashes::tests::crashing"]).env(DIRECTORY, directory);
        let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
        assert!(!status.success());
    }

    #[test]
    fn a_panic_leaves_a_report_and_a_loop_of_panics_not_more_than_so_many() {
        let directory = std::env::temp_dir().join(format!("sepiola-crash-{}", std::process::id()));
        crash_in(&directory);
        let reports = kept(&place(&directory)).unwrap();
        let text = fs::read_to_string(&reports[0]).unwrap();
        let report: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(report["assert_msg"], "the log of osd.3 lacks 7");
        assert_eq!(report["entity_name"], "osd.3");
        assert!(report["assert_file"].as_str().unwrap().ends_with("crashes/mod.rs"));
        let backtrace = report["backtrace"].to_string();
        assert!(backtrace.contains("crashing"), "{backtrace}");
        for number in 1..KEPT_MAX {
            fs::write(place(&directory).join(format!("{number}.json")), "").unwrap();
        }
        crash_in(&directory);
        assert_eq!(kept(&place(&directory)).unwrap().len(), KEPT_MAX);
        fs::remove_dir_all(&directory).unwrap();
    }
}
