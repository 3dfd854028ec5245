//! Maps and mappings made by `crushtool`, which ours must equal.
//!
//! `golden/NAME.map` is a compiled map. `golden/NAME.mappings` says what `crushtool --test
//! --show-mappings` gives for it, in blocks:
//!
//! ```text
//! rule 0 size 3 from 0 weights 3=8000 5=0
//! 4,1,2
//! ...
//! ```
//!
//! One line per input, `-` for a missing device. Weights are 16.16 fixed point in hex; devices in
//! the tree that are not mentioned are fully in.

use codec::{EncodeFor, Writer, decode_all};
use crush::{CrushMap, ITEM_NONE, Workspace};
use std::fs;
use std::path::{Path, PathBuf};
use types::features;

fn golden_maps() -> Vec<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let files = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let mut maps: Vec<_> =
        files.filter(|path| path.extension().is_some_and(|e| e == "map")).collect();
    assert!(!maps.is_empty());
    maps.sort();
    maps
}

fn decode(path: &Path) -> CrushMap {
    decode_all("crush map", &fs::read(path).unwrap()).unwrap_or_else(|e| panic!("{path:?}: {e}"))
}

/// Features of the writer of a golden file. Maps by Ceph 20 end with the tunables of retrying rules.
fn writer_features(path: &Path) -> u64 {
    if path.to_string_lossy().contains("tentacle") {
        features::SUPPORTED
    } else {
        features::SUPPORTED & !(features::CRUSH_MSR | features::SERVER_QUINCY)
            | features::SERVER_LUMINOUS
    }
}

#[test]
fn mappings_equal_those_of_crushtool() {
    for path in golden_maps() {
        let map = decode(&path);
        let text = fs::read_to_string(path.with_extension("mappings")).unwrap();
        let mut workspace = Workspace::default();
        let mut block = None;
        for (number, line) in text.lines().enumerate() {
            if line.starts_with("rule") {
                block = Some(Block::parse(line, &map));
                continue;
            }
            let block = block.as_mut().expect("a rule line comes first");
            let got = block.next(&map, &mut workspace);
            assert_eq!(got, line, "{path:?} line {}: {block:?}", number + 1);
        }
    }
}

#[derive(Debug)]
struct Block {
    rule: u32,
    size: usize,
    x: u32,
    weights: Vec<u32>,
}

impl Block {
    fn parse(line: &str, map: &CrushMap) -> Block {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |index: usize| words[index].parse::<u32>().unwrap();
        let weight = |device| if map.is_held(device) { 0x10000 } else { 0 };
        let mut weights: Vec<u32> = (0..map.max_devices()).map(weight).collect();
        for word in &words[7..] {
            let (device, weight) = word.split_once('=').unwrap();
            weights[device.parse::<usize>().unwrap()] = u32::from_str_radix(weight, 16).unwrap();
        }
        Block { rule: number(1), size: number(3) as usize, x: number(5), weights }
    }

    fn next(&mut self, map: &CrushMap, workspace: &mut Workspace) -> String {
        let (args, mut devices) = (map.choose_args_for(0), Vec::new());
        let Block { rule, size, x, weights } = self;
        map.do_rule_into(workspace, *rule, *x, *size, weights, args, &mut devices);
        *x += 1;
        let name = |&device: &i32| match device {
            ITEM_NONE => "-".to_string(),
            device => device.to_string(),
        };
        devices.iter().map(name).collect::<Vec<_>>().join(",")
    }
}

#[test]
fn maps_are_written_as_crushtool_wrote_them() {
    for path in golden_maps() {
        let bytes = fs::read(&path).unwrap();
        let mut w = Writer::new();
        decode(&path).encode_for(&mut w, writer_features(&path));
        assert!(w.as_slice() == bytes, "{path:?}");
    }
}

/// The encoding has no length, so a map may end where an older writer would have stopped.
#[test]
fn a_truncated_map_is_refused_or_an_older_one() {
    for path in golden_maps() {
        let bytes = fs::read(&path).unwrap();
        let mut w = Writer::new();
        decode(&path).encode_for(&mut w, 0);
        let tail = w.len() - "xxxx yyyy zzzz dddd v s aaaa".replace(' ', "").len();
        let older =
            (0..bytes.len()).filter(|&end| decode_all::<CrushMap>("map", &bytes[..end]).is_ok());
        let older: Vec<usize> = older.collect();
        assert!(older.iter().all(|&end| end >= tail), "{path:?}: {older:?}, tail {tail}");
        assert!(older.len() <= 9, "{path:?}: {older:?}");
    }
}
