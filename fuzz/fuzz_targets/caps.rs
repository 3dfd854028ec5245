//! Capabilities: what people type.

#![no_main]

use auth::{MdsCaps, MgrCaps, MonCaps, OsdCaps};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let _ = MonCaps::parse(text);
    let _ = OsdCaps::parse(text);
    let _ = MgrCaps::parse(text);
    let _ = MdsCaps::parse(text);
});
