//! Options that the monitor's configuration database sets for a participant.

use std::collections::BTreeMap;

message! {
    /// `MConfig`: all options that differ from their defaults.
    Config = 62, version 1, compat 1 {
        /// Values by name of the option.
        options: BTreeMap<String, String>;
    }
}
