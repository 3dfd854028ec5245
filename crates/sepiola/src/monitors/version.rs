//! `sepiola cluster version | finalize`

use access::{ClusterArgs, Connection};
use anyhow::Result;
use serde_json::json;
use std::io::{self, Write};

/// `sepiola cluster version`
pub fn show(args: &ClusterArgs) -> Result<()> {
    let answer = Connection::open(args)?.command(&json!({ "prefix": "cluster version" }))?;
    Ok(io::stdout().write_all(&answer.output)?)
}

/// `sepiola cluster finalize`
pub fn finalize(args: &ClusterArgs) -> Result<()> {
    let answer = Connection::open(args)?.command(&json!({ "prefix": "cluster finalize" }))?;
    println!("{}", answer.text);
    Ok(())
}
