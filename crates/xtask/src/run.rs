//! Running other programs, visibly.

use anyhow::{Context, Result, bail};
use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::Command;

/// The top of the workspace.
pub fn root() -> PathBuf {
    let manifest = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    manifest.ancestors().nth(2).expect("crates/xtask lies two levels deep").to_owned()
}

/// Runs cargo in the workspace; fails with its exit status.
pub fn cargo(args: &[&str]) -> Result<()> {
    let mut command = Command::new(env!("CARGO"));
    for (name, _) in std::env::vars_os().filter(|(name, _)| describes_this_package(name)) {
        command.env_remove(name);
    }
    run(command.args(args))
}

/// True if `cargo run` has set the variable for this program. Build scripts ask to run again when such a
/// variable changes: passed on, it would have their packages built twice, and all above them.
fn describes_this_package(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_")
}

/// Runs a command to its end at the top of the workspace; a failure is an error that names the command.
pub fn run(command: &mut Command) -> Result<()> {
    let shown = shown(command);
    println!("+ {shown}");
    let status =
        command.current_dir(root()).status().with_context(|| format!("starting `{shown}`"))?;
    if !status.success() {
        bail!("`{shown}` failed: {status}");
    }
    Ok(())
}

fn shown(command: &Command) -> String {
    let program = PathBuf::from(command.get_program());
    let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let args = command.get_args().map(|arg| arg.to_string_lossy().into_owned());
    std::iter::once(name).chain(args).collect::<Vec<_>>().join(" ")
}
