//! A message that shows its sender to be alive.

message! {
    /// `MPing`
    Ping = 2, version 1, compat 1 {}
}
