//! How a program finds a cluster and talks to it: arguments, data directory, ceph.conf and keyring; a
//! connection that sends one request after another, and a blocking client for images.

mod args;
mod blocking_client;
mod connection;
mod datadir;
mod progress;

pub use args::{
    AuthMode, ClusterArgs, DataArgs, ImageArgs, ImageName, POOL_DEFAULT, PoolArgs, PoolName,
    SourceName, image_name, parse_size, pool_name, source_name,
};
pub use blocking_client::{BlockingClient, new_id, pool_of, spec_of};
pub use connection::{
    ClientNode, Conf, Connection, client_config, client_node, monitors, read_conf,
};
pub use datadir::{DataDir, DataLock};
pub use progress::progress;
