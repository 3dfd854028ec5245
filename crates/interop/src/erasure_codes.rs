//! Erasure codes: Ceph's `ceph-erasure-code-tool` and our crate decode what the other encoded.
//!
//! The tool is in the package `ceph-osd`. It needs no cluster.

use crate::run::Run;
use anyhow::{Context, Result, bail, ensure};
use erasure::{Code, Shards, Technique};
use std::fs;
use std::path::{Path, PathBuf};

const SIZES: [(usize, usize); 7] = [(2, 1), (2, 2), (3, 2), (4, 2), (6, 3), (8, 3), (10, 4)];
/// Bytes of a chunk; the length of a row.
const UNIT: usize = 4096;
/// Stripes of an object.
const STRIPES: usize = 2;
/// Sets of erased shards in a short run; a long one has one for each shard of the code.
const SHORT_ERASURES: usize = 3;

/// Compares all techniques that have a code of these sizes.
pub fn run(run: &Run<'_>) -> Result<()> {
    let (mut codes, mut erasures) = (0, 0);
    for (k, m) in SIZES {
        for technique in Technique::ALL.into_iter().filter(|one| one.parities_min() <= m) {
            let Ok(code) = Code::new(technique, k, m) else { continue };
            let oracle = Oracle { run, code: &code };
            erasures += oracle.check().with_context(|| format!("{technique} {k}+{m}"))?;
            codes += 1;
        }
    }
    run.say(&format!(
        "{codes} codes have the same parities, and decode the same after {erasures} erasures"
    ));
    Ok(())
}

/// Ceph's tool, with the profile of one code.
struct Oracle<'a> {
    run: &'a Run<'a>,
    code: &'a Code,
}

impl Oracle<'_> {
    /// Returns the number of erasures.
    fn check(&self) -> Result<usize> {
        let object = bytes(STRIPES * self.code.k() * UNIT);
        let theirs = self.encode(&object)?;
        let ours = encode(self.code, &object);
        for (shard, (ours, theirs)) in ours.iter().zip(&theirs).enumerate() {
            ensure!(ours == theirs, "shard {shard} differs from that of Ceph");
        }
        let shards = self.code.shards();
        let erasures = if self.run.short { SHORT_ERASURES } else { shards };
        for index in 0..erasures {
            // Neighbours, around the end; spread over data and parities in a short run.
            let first = index * shards / erasures;
            let erased: Shards = (0..self.code.m()).map(|i| (first + i) % shards).collect();
            self.compare_decoded(&object, &theirs, erased).with_context(|| {
                format!("without shards {:?}", erased.iter().collect::<Vec<_>>())
            })?;
        }
        Ok(erasures)
    }

    /// Ceph decodes the object from our shards, and we decode the erased shards from Ceph's.
    fn compare_decoded(&self, object: &[u8], shards: &[Vec<u8>], erased: Shards) -> Result<()> {
        let available = Shards::first(shards.len()).without(erased);
        ensure!(self.decode(shards, available)? == object, "Ceph decodes another object");
        let decoder = self.code.decoder(available, erased)?;
        let sources: Vec<&[u8]> =
            decoder.sources().iter().map(|shard| shards[shard].as_slice()).collect();
        let mut outputs = vec![vec![0; STRIPES * UNIT]; erased.len()];
        let mut slices: Vec<&mut [u8]> = outputs.iter_mut().map(Vec::as_mut_slice).collect();
        decoder.decode(&sources, &mut slices);
        for (shard, decoded) in erased.iter().zip(outputs) {
            ensure!(decoded == shards[shard], "our shard {shard} differs from that of Ceph");
        }
        Ok(())
    }

    /// All shards of an object.
    fn encode(&self, object: &[u8]) -> Result<Vec<Vec<u8>>> {
        let path = self.run.directory.join("object");
        fs::write(&path, object)?;
        self.tool("encode", Shards::first(self.code.shards()), &path)?;
        let read = |shard| Ok(fs::read(file_of(&path, shard))?);
        (0..self.code.shards()).map(read).collect()
    }

    /// The object, from some of its shards.
    fn decode(&self, shards: &[Vec<u8>], available: Shards) -> Result<Vec<u8>> {
        let path = self.run.directory.join("decoded");
        for shard in available.iter() {
            fs::write(file_of(&path, shard), &shards[shard])?;
        }
        self.tool("decode", available, &path)?;
        let decoded = fs::read(&path)?;
        fs::remove_file(&path)?;
        Ok(decoded)
    }

    /// Runs the tool with the shards to write or to read.
    fn tool(&self, action: &str, shards: Shards, path: &Path) -> Result<()> {
        let code = self.code;
        let (technique, k, m) = (code.technique(), code.k(), code.m());
        let (plugin, name) = (technique.plugin(), technique.name());
        let profile = format!("plugin={plugin},technique={name},k={k},m={m}");
        let shards: Vec<String> = shards.iter().map(|shard| shard.to_string()).collect();
        // The tool reads a configuration, which may be empty.
        let environment = [("CEPH_CONF", "/dev/null".to_owned())];
        let mut command = self.run.clients.command("ceph-erasure-code-tool", &environment);
        command.arg(action).arg(profile).arg(UNIT.to_string()).arg(shards.join(",")).arg(path);
        let output = command.output()?;
        if !output.status.success() {
            let errors = String::from_utf8_lossy(&output.stderr);
            bail!("ceph-erasure-code-tool {action}: {}", errors.lines().next().unwrap_or_default());
        }
        Ok(())
    }
}

/// The tool's file of a shard.
fn file_of(path: &Path, shard: usize) -> PathBuf {
    path.with_extension(shard.to_string())
}

/// All shards of an object: stripe by stripe, as in a pool.
fn encode(code: &Code, object: &[u8]) -> Vec<Vec<u8>> {
    let mut shards = vec![Vec::new(); code.shards()];
    for stripe in object.chunks(code.k() * UNIT) {
        let data: Vec<&[u8]> = stripe.chunks(UNIT).collect();
        let mut parities = vec![vec![0; UNIT]; code.m()];
        let mut slices: Vec<&mut [u8]> = parities.iter_mut().map(Vec::as_mut_slice).collect();
        code.encode(&data, &mut slices);
        let chunks = data.into_iter().chain(parities.iter().map(Vec::as_slice));
        shards.iter_mut().zip(chunks).for_each(|(shard, chunk)| shard.extend_from_slice(chunk));
    }
    shards
}

/// Bytes without a pattern: a multiplicative generator.
fn bytes(len: usize) -> Vec<u8> {
    let mut state = len as u64 | 1;
    let mut next = || {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (state >> 56) as u8
    };
    (0..len).map(|_| next()).collect()
}
