//! Developer commands: `cargo xtask test | tidy | interop | soak | fuzz | deb`.
//!
//! Each command prints what it runs, so that it can be repeated by hand.

mod deb;
mod packages;
mod run;
mod test;
mod tidy;

use anyhow::{Result, bail};
use std::process::ExitCode;

const HELP: &str = "\
cargo xtask COMMAND

  test                            installs what the tests need, then runs all of them
  tidy                            house rules: dependencies between crates, headers, sizes, comments, names, doc paths
  interop [--clients V] [CHECK…]  stock Ceph clients (16.2, 18.2, 20.2) against fresh clusters
  soak [--first-seed S] --seeds N long simulations; a failing seed is printed and replays exactly;
                                  then all faults of real machines
  fuzz [--seconds N] [TARGET…]    fuzzes the decoders (needs a nightly toolchain and cargo-fuzz)
  deb [--binary F] [--out DIR]    the Debian package, of a program that is built already or of a release build
";

fn main() -> ExitCode {
    match command() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn command() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (command, rest) = match args.split_first() {
        Some((command, rest)) => (command.as_str(), rest),
        None => ("help", &[][..]),
    };
    match command {
        "test" => test::test(),
        "tidy" => tidy::tidy(),
        "interop" => test::interop(rest),
        "soak" => test::soak(rest),
        "fuzz" => test::fuzz(rest),
        "deb" => deb::deb(rest),
        "help" | "--help" | "-h" => {
            print!("{HELP}");
            Ok(())
        }
        other => bail!("there is no command {other:?}\n\n{HELP}"),
    }
}
