//! Erasure codes: all kernels compute the same, and what is erased decodes to what was encoded.

#![no_main]

use erasure::{Code, Column, Kernel, OUTPUTS_MAX, Shards, Technique};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((&[choice, size, erased], bytes)) = input.split_first_chunk() else { return };
    match choice % 2 {
        0 => kernels(usize::from(size), erased, bytes),
        _ => codes(choice / 2, size, u32::from(erased), bytes),
    }
});

/// One product of slices at any place and of any length.
fn kernels(sources: usize, shape: u8, bytes: &[u8]) {
    let (outputs, accumulates) = (usize::from(shape) % OUTPUTS_MAX + 1, shape & 0x80 != 0);
    let (sources, offset) = (sources % 40, usize::from(shape >> 2) % 32);
    let Some((coefficients, bytes)) = bytes.split_at_checked(sources * OUTPUTS_MAX) else { return };
    let columns: Vec<Column> =
        coefficients.chunks_exact(OUTPUTS_MAX).map(|c| c.try_into().expect("four")).collect();
    let len = bytes.len() / (sources + outputs);
    let mut chunks = bytes.chunks_exact(len.max(1)).map(|chunk| &chunk[..len]);
    let sources: Vec<&[u8]> = chunks.by_ref().take(sources).collect();
    let before: Vec<&[u8]> = chunks.take(outputs).collect();
    if before.len() < outputs {
        return;
    }
    let compute = |kernel: Kernel| {
        let mut stored: Vec<Vec<u8>> =
            before.iter().map(|chunk| [&vec![0; offset][..], chunk].concat()).collect();
        let mut slices: Vec<&mut [u8]> = stored.iter_mut().map(|s| &mut s[offset..]).collect();
        match accumulates {
            true => kernel.dot_xor(&mut slices, &sources, &columns),
            false => kernel.dot(&mut slices, &sources, &columns),
        }
        stored
    };
    let expected = compute(Kernel::scalar());
    for kernel in Kernel::available() {
        assert_eq!(compute(*kernel), expected, "{}", kernel.name());
    }
}

/// One stripe of any code.
fn codes(technique: u8, size: u8, erased: u32, bytes: &[u8]) {
    let technique = Technique::ALL[usize::from(technique) % Technique::ALL.len()];
    let (k, m) = (usize::from(size & 31), usize::from(size >> 5));
    let Ok(code) = Code::new(technique, k, m) else { return };
    let len = bytes.len() / k;
    let data: Vec<&[u8]> = (0..k).map(|shard| &bytes[shard * len..][..len]).collect();
    let mut parities = vec![vec![0; len]; m];
    let mut slices: Vec<&mut [u8]> = parities.iter_mut().map(Vec::as_mut_slice).collect();
    code.encode(&data, &mut slices);
    let chunk = |shard: usize| if shard < k { data[shard] } else { &parities[shard - k] };

    // A spread of at most m shards.
    let step = erased as usize % 7 + 1;
    let erased: Shards = (0..m).map(|i| (erased as usize + i * step) % code.shards()).collect();
    let available = Shards::first(code.shards()).without(erased);
    let decoder = code.decoder(available, erased).expect("at most m shards are erased");
    let sources: Vec<&[u8]> = decoder.sources().iter().map(chunk).collect();
    let mut decoded = vec![vec![0; len]; erased.len()];
    let mut slices: Vec<&mut [u8]> = decoded.iter_mut().map(Vec::as_mut_slice).collect();
    decoder.decode(&sources, &mut slices);
    assert!(erased.iter().zip(&decoded).all(|(shard, decoded)| chunk(shard) == decoded));
}
