//! CRUSH maps that nobody sane wrote: whatever decodes can be walked.

#![no_main]

use codec::{Decode, EncodeFor, Reader};
use crush::{CrushMap, TreeView};
use libfuzzer_sys::fuzz_target;

const RULES_TRIED: usize = 4;

fuzz_target!(|bytes: &[u8]| {
    let Ok(map) = CrushMap::decode(&mut Reader::new(bytes)) else { return };
    let weights = vec![0x8000; map.max_devices().clamp(0, 64) as usize];
    let rules: Vec<u32> = map.rules().map(|(id, _)| id).take(RULES_TRIED).collect();
    for rule in rules {
        map.do_rule(rule, 1, 4, &weights, map.choose_args_for(0));
    }
    TreeView { shadows: true, ..TreeView::default() }.items(&map, |_| true);
    let mut w = codec::Writer::new();
    map.encode_for(&mut w, types::features::SUPPORTED);
    let again = CrushMap::decode(&mut Reader::new(w.as_slice()));
    assert!(again.is_ok(), "what was encoded decodes: {:?}", again.err());
});
