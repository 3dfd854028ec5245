//! One placement group: log, replication, activation after restarts.
