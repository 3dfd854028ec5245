//! A message that only shows that its sender lives.

message! {
    /// `MPing`
    Ping = 2, version 1, compat 1 {}
}
