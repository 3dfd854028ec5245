//! `sepiola control collect`: what the OSDs of a machine remember of their cluster, in one file.
//!
//! Their stores have the newest map by which they acted, their directories their keys. The file holds the
//! newest of the maps, and the keys: a reader of it can pose as these OSDs.

use crate::cli::CollectArgs;
use crate::daemon_files;
use crate::osd::directory::OsdSettings;
use access::AuthMode;
use anyhow::{Context, Result, anyhow, bail};
use auth::CryptoKey;
use machine::write_file;
use maps::OsdMap;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use store::{Outcome, StoreError};
use types::features::SUPPORTED;
use types::{EntityName, OsdId, Uuid};

const SECRET_MODE: u32 = 0o600;
/// Enough to look one object up.
const MEMORY: u64 = 64 << 20;

/// State of a cluster as found on some of its OSDs.
#[derive(Debug, Default)]
pub struct Found {
    /// The newest one.
    pub map: Option<OsdMap>,
    /// Keys of the OSDs, unless authentication is off.
    pub keys: BTreeMap<OsdId, CryptoKey>,
    /// The OSDs that were looked at.
    pub osds: Vec<OsdId>,
    /// One of them says that authentication is off.
    pub auth_none: bool,
}

/// The same, as the file has it.
#[derive(Serialize, Deserialize)]
struct FoundFile {
    /// Encoded, in hexadecimal digits.
    map: String,
    keys: BTreeMap<i32, String>,
    osds: Vec<i32>,
    auth_none: bool,
}

/// `sepiola control collect`
pub fn collect(args: &CollectArgs) -> Result<()> {
    let mut found = Found::default();
    for directory in &args.osds {
        found.look_into(directory)?;
    }
    let map = found.map.as_ref().context("none of these OSDs has ever had a map")?;
    write_file(&args.out, &found.to_text()?, SECRET_MODE)?;
    println!(
        "{} OSDs of cluster {}, newest map {}, in {}\n\
         it has their keys: keep it as carefully as them, and remove it after the rebuild",
        found.osds.len(),
        map.fsid,
        map.epoch,
        args.out.display()
    );
    Ok(())
}

impl Found {
    /// Takes in what an OSD's directory tells, and its store.
    pub fn look_into(&mut self, directory: &Path) -> Result<()> {
        let directory = std::path::absolute(directory)?;
        let shown = directory.display().to_string();
        let osd = match OsdSettings::load(&directory) {
            Ok(settings) => {
                self.auth_none |= settings.auth == AuthMode::None;
                if settings.auth == AuthMode::Cephx {
                    let key = daemon_files::key(&directory, &EntityName::osd(settings.id))?;
                    self.keys.insert(OsdId(settings.id), key);
                }
                OsdId(settings.id)
            }
            // Of `sepiola up`, whose OSDs need no key, and have no settings.
            Err(error) if daemon_files::is_absent(&error) => number_in(&directory).ok_or(error)?,
            Err(error) => return Err(error),
        };
        self.osds.push(osd);
        let map = newest_map(&directory).with_context(|| format!("reading the map in {shown}"))?;
        match map {
            Some(map) => self.take_map(map, &shown),
            None => Ok(()),
        }
    }

    fn take_map(&mut self, map: OsdMap, from: &str) -> Result<()> {
        match &self.map {
            Some(known) if known.fsid != map.fsid => {
                bail!("{from} belongs to cluster {}, not to {}", map.fsid, known.fsid)
            }
            Some(known) if known.epoch >= map.epoch => Ok(()),
            _ => {
                self.map = Some(map);
                Ok(())
            }
        }
    }

    fn to_text(&self) -> Result<String> {
        let map = self.map.as_ref().map(|map| map.to_bytes(SUPPORTED)).unwrap_or_default();
        let file = FoundFile {
            map: map.iter().map(|byte| format!("{byte:02x}")).collect(),
            keys: self.keys.iter().map(|(osd, key)| (osd.0, key.to_string())).collect(),
            osds: self.osds.iter().map(|osd| osd.0).collect(),
            auth_none: self.auth_none,
        };
        Ok(serde_json::to_string_pretty(&file)? + "\n")
    }

    /// Takes in a file that `collect` wrote.
    pub fn read(&mut self, path: &Path) -> Result<()> {
        let shown = path.display().to_string();
        let text = fs::read_to_string(path).with_context(|| format!("reading {shown}"))?;
        self.take_text(&text, &shown).with_context(|| format!("reading {shown}"))
    }

    fn take_text(&mut self, text: &str, from: &str) -> Result<()> {
        let file: FoundFile = serde_json::from_str(text)?;
        let map = codec::decode_all::<OsdMap>("map", &from_hex(&file.map)?)?;
        self.take_map(map, from)?;
        for (osd, key) in file.keys {
            let key = key.parse().map_err(|_| anyhow!("the key of osd.{osd} is none"))?;
            self.keys.insert(OsdId(osd), key);
        }
        self.osds.extend(file.osds.into_iter().map(OsdId));
        self.auth_none |= file.auth_none;
        Ok(())
    }

    /// The cluster of the newest map.
    pub fn fsid(&self) -> Option<Uuid> {
        self.map.as_ref().map(|map| map.fsid)
    }

    /// OSDs of the map about which nothing was found.
    pub fn absent(&self) -> Vec<OsdId> {
        let map = self.map.iter();
        let all = map.flat_map(|map| map.existing_osds().map(|(osd, _)| osd));
        all.filter(|osd| !self.osds.contains(osd)).collect()
    }
}

/// The 3 of `osd.3`.
fn number_in(directory: &Path) -> Option<OsdId> {
    let name = directory.file_name()?.to_str()?;
    name.strip_prefix("osd.")?.parse().ok().map(OsdId)
}

fn newest_map(directory: &Path) -> Result<Option<OsdMap>> {
    match disks::request_once(directory, osd::stored_map_request(), MEMORY)? {
        Ok(Outcome::OmapPage(page)) => Ok(osd::stored_map(&page)?),
        Err(StoreError::NoObject { .. } | StoreError::NoCollection(_)) => Ok(None),
        Ok(other) => unreachable!("an omap page was answered by {other:?}"),
        Err(error) => Err(error.into()),
    }
}

fn from_hex(text: &str) -> Result<Vec<u8>> {
    let digits: Option<Vec<u8>> =
        text.chars().map(|c| c.to_digit(16).and_then(|digit| u8::try_from(digit).ok())).collect();
    let digits = digits.filter(|digits| digits.len() % 2 == 0).context("not hexadecimal digits")?;
    Ok(digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::Epoch;

    fn map(fsid: u8, epoch: u32) -> OsdMap {
        OsdMap { epoch: Epoch(epoch), ..OsdMap::new(Uuid([fsid; 16])) }
    }

    #[test]
    fn the_newest_map_counts_and_files_say_what_was_found() {
        let mut here = Found { osds: vec![OsdId(1)], ..Found::default() };
        here.take_map(map(7, 5), "osd.1").unwrap();
        let mut all = Found { osds: vec![OsdId(0)], ..Found::default() };
        all.take_map(map(7, 9), "osd.0").unwrap();
        all.take_text(&here.to_text().unwrap(), "file").unwrap();
        assert_eq!(all.map.as_ref().unwrap().epoch, Epoch(9));
        assert_eq!(all.osds, [OsdId(0), OsdId(1)]);
        let error = all.take_map(map(8, 10), "osd.2").unwrap_err();
        assert!(error.to_string().contains("belongs to cluster"), "{error}");
        assert!(from_hex("0g").is_err() && from_hex("0").is_err());
    }
}
