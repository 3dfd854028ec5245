//! Parities that Ceph computed; `golden/parities.txt` says how.

use erasure::{Code, Kernel};

mod common;
use common::encode;

const UNIT: usize = 32;
/// Chunks are repeated, so that they are longer than a step of any kernel.
const TIMES: usize = 9;

fn object(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * i * 31 + i * 17 + (i >> 3)) as u8).collect()
}

fn bytes(hex: &str) -> Vec<u8> {
    let byte = |at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
    (0..hex.len()).step_by(2).map(byte).collect()
}

#[test]
fn parities_are_those_of_ceph() {
    let lines = include_str!("golden/parities.txt").lines().filter(|line| !line.starts_with('#'));
    let mut codes = 0;
    for line in lines {
        let mut words = line.split(' ');
        let mut next = || words.next().unwrap();
        let (plugin, technique) = (next(), next());
        let (k, m) = (next().parse().unwrap(), next().parse().unwrap());
        let parities: Vec<Vec<u8>> = words.map(|word| bytes(word).repeat(TIMES)).collect();
        assert_eq!(parities.len(), m);
        let code = Code::from_names(plugin, technique, k, m).unwrap();
        let data: Vec<Vec<u8>> =
            object(k * UNIT).chunks(UNIT).map(|chunk| chunk.repeat(TIMES)).collect();
        for kernel in Kernel::available() {
            let encoded = encode(&code.clone().with_kernel(*kernel), &data);
            assert_eq!(encoded, parities, "{plugin} {technique} {k}+{m}");
        }
        codes += 1;
    }
    assert_eq!(codes, 32);
}
