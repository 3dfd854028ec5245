//! Writes what a cluster of this version leaves on its disks into a directory, for `tests/stores`.

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let Some(directory) = std::env::args().nth(1) else {
        eprintln!("usage: keep DIRECTORY, for example crates/sim/tests/stores/2");
        return ExitCode::from(2);
    };
    match write(Path::new(&directory)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("keep: {problem}");
            ExitCode::FAILURE
        }
    }
}

fn write(directory: &Path) -> Result<(), String> {
    let kept = sim::kept::make()?;
    sim::kept::open(&kept)?;
    std::fs::create_dir(directory).map_err(|error| {
        format!("{}: {error}; a directory is never changed", directory.display())
    })?;
    for (name, content) in kept.files() {
        let path = directory.join(name);
        std::fs::write(&path, content).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(())
}
