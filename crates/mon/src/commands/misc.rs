//! Commands to a running daemon, which Ceph sends with `tell`.

use crate::command::{Answer, Command, Context, Refusal, command};
use types::Errno;

pub const COMMANDS: &[Command] = &[
    command(
        "injectargs name=injected_args,type=CephString,n=N",
        "inject configuration arguments into running daemon",
        "mon",
        "rw",
        inject,
    ),
    command(
        "tell name=target,type=CephName name=args,type=CephString,n=N",
        "send a command to a specific daemon",
        "mon",
        "rw",
        tell,
    ),
    command("compact", "cause compaction of monitor's storage", "mon", "rw", |_| {
        Ok(Answer::said("the control store needs no compaction"))
    }),
];

fn inject(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let given = context.arguments.list("injected_args").join(" ");
    let text = format!("'{given}' was not applied: set options with 'ceph config set'");
    Err(Refusal::new(Errno::NOTSUPP, text))
}

fn tell(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let target = context.arguments.text("target");
    Err(Refusal::invalid(format!(
        "commands for {target} go to {target} itself, not through the monitor"
    )))
}
