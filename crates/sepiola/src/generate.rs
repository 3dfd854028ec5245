//! `sepiola generate`: manual pages and shell completions, from the definition of the command line, for
//! packages.

use crate::cli::{Cli, GenerateCommand};
use anyhow::{Context, Result};
use clap::CommandFactory;
use clap_complete::Shell;
use std::fs;
use std::path::Path;

const SHELLS: [Shell; 3] = [Shell::Bash, Shell::Zsh, Shell::Fish];

/// `sepiola generate`
pub fn run(command: &GenerateCommand) -> Result<()> {
    match command {
        GenerateCommand::Man { directory } => man(directory),
        GenerateCommand::Completions { directory } => completions(directory),
    }
}

fn man(directory: &Path) -> Result<()> {
    make(directory)?;
    clap_mangen::generate_to(Cli::command(), directory)
        .with_context(|| format!("writing manual pages into {}", directory.display()))
}

fn completions(directory: &Path) -> Result<()> {
    make(directory)?;
    for shell in SHELLS {
        clap_complete::generate_to(shell, &mut Cli::command(), "sepiola", directory)
            .with_context(|| format!("writing completions into {}", directory.display()))?;
    }
    Ok(())
}

fn make(directory: &Path) -> Result<()> {
    fs::create_dir_all(directory).with_context(|| format!("making {}", directory.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Names of the pages of all commands that `--help` shows.
    fn pages(command: &clap::Command, prefix: &str, names: &mut BTreeSet<String>) {
        names.insert(format!("{prefix}.1"));
        let shown = |one: &&clap::Command| !one.is_hide_set() && one.get_name() != "help";
        for one in command.get_subcommands().filter(shown) {
            pages(one, &format!("{prefix}-{}", one.get_name()), names);
        }
    }

    #[test]
    fn each_command_has_a_manual_page_and_is_completed() {
        let base = std::env::temp_dir().join(format!("sepiola-generate-{}", std::process::id()));
        man(&base.join("man")).unwrap();
        let mut expected = BTreeSet::new();
        pages(&Cli::command(), "sepiola", &mut expected);
        let found = fs::read_dir(base.join("man")).unwrap();
        let found: BTreeSet<String> =
            found.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        assert_eq!(found, expected);
        assert!(found.contains("sepiola-osd-create.1"), "{found:?}");
        completions(&base.join("completions")).unwrap();
        let bash = fs::read_to_string(base.join("completions/sepiola.bash")).unwrap();
        assert!(bash.contains("--log-disk"), "{bash}");
        fs::remove_dir_all(base).unwrap();
    }
}
