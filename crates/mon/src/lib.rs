//! The monitor engine: maps, commands, authentication, health.
