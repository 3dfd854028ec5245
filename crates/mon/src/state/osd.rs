//! The OSD map, its history, and the metadata of OSDs.

use super::data::{Applied, Key, State};
use super::values::{epoch_of, json, set};
use crate::keys::VersionGroup;
use bytes::Bytes;
use codec::decode_all;
use types::{Epoch, OsdId};

pub(super) const KEYS: &[Key] = &[
    Key { name: "osdmap", group: Some(VersionGroup::OSDMAP), apply: apply_map },
    Key { name: "osd", group: Some(VersionGroup::OSDMAP), apply: apply_osd },
];

fn apply_map(state: &mut State, rest: &str, value: Option<&Bytes>) -> Applied {
    match rest.split_once('/').unwrap_or((rest, "")) {
        ("full", epoch) => apply_full(state, epoch_of(epoch)?, value),
        ("inc", epoch) => {
            set(&mut state.history.incrementals, epoch_of(epoch)?, value.cloned());
            Ok(())
        }
        _ => Ok(()),
    }
}

fn apply_full(state: &mut State, epoch: Epoch, value: Option<&Bytes>) -> Applied {
    if let Some(bytes) = value
        && epoch > state.osdmap.epoch
    {
        state.osdmap = decode_all("OSD map", bytes).map_err(Some)?;
    }
    set(&mut state.history.full, epoch, value.cloned());
    Ok(())
}

fn apply_osd(state: &mut State, rest: &str, value: Option<&Bytes>) -> Applied {
    if let ("metadata", id) = rest.split_once('/').unwrap_or((rest, "")) {
        let id = OsdId(id.parse().map_err(|_| None)?);
        set(&mut state.osd_metadata, id, value.map(json).transpose()?);
    }
    Ok(())
}
