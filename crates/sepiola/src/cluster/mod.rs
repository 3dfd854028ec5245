//! A whole cluster in one process.

mod admin;
mod create;
mod running;
mod settings;

pub use admin::{admin_args, write_keyring};
pub use create::{SIZE_DEFAULT, create};
pub use running::RunningCluster;
pub use settings::{MGR_NAME, MON_NAME, Settings};
