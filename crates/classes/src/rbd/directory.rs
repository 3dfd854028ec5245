//! Names and ids: of images in `rbd_directory`, of groups in `rbd_group_directory`, both as pairs
//! of an omap in both directions; of one image in its `rbd_id.<name>`; of namespaces in
//! `rbd_namespace`.

use crate::encoding::{Raw, decode_stored};
use crate::method::{Method, methods};
use crate::object::{Failure, ObjectContext, Result};
use crate::omap;
use bytes::Bytes;
use std::collections::BTreeMap;
use types::Errno;

pub(super) const METHODS: &[Method] = methods! {
    "get_id": READ => id_of_image,
    "set_id": READ_WRITE => set_id_of_image,
    "dir_get_id": READ => id,
    "dir_get_name": READ => name,
    "dir_list": READ => list,
    "dir_add_image": READ_WRITE => add,
    "dir_remove_image": READ_WRITE => remove,
    "dir_rename_image": READ_WRITE => rename,
    "dir_state_assert": READ => assert_state,
    "dir_state_set": READ_WRITE => set_state,
    "group_dir_list": READ => list,
    "group_dir_add": READ_WRITE => add,
    "group_dir_remove": READ_WRITE => remove,
    "group_dir_rename": READ_WRITE => rename,
    "namespace_add": READ_WRITE => add_namespace,
    "namespace_remove": READ_WRITE => remove_namespace,
    "namespace_list": READ => namespaces,
};

const NAME_PREFIX: &str = "name_";
pub(super) const ID_PREFIX: &str = "id_";
const STATE: &str = "state";
const STATE_READY: u8 = 0;
/// No images can be added: the namespace is being removed.
const STATE_ADD_DISABLED: u8 = 1;

pub(super) fn is_valid_id(id: &[u8]) -> bool {
    !id.is_empty() && id.iter().all(u8::is_ascii_alphanumeric)
}

/// The id that an id object holds as its data.
fn id_of_image(object: &mut dyn ObjectContext, (): ()) -> Result<Bytes> {
    match object.size()? {
        0 => Err(Errno::NOENT.into()),
        size => decode_stored(&object.read(0, size)?),
    }
}

fn set_id_of_image(object: &mut dyn ObjectContext, id: Bytes) -> Result<()> {
    let size = object.size()?;
    if !is_valid_id(&id) {
        return Err(Errno::INVAL.into());
    }
    if size != 0 {
        return Err(Errno::EXIST.into());
    }
    object.write(0, codec::encode_to_bytes(&id))
}

fn id(object: &mut dyn ObjectContext, name: Bytes) -> Result<Bytes> {
    omap::require(object, omap::key(NAME_PREFIX, &name))
}

fn name(object: &mut dyn ObjectContext, id: Bytes) -> Result<Bytes> {
    omap::require(object, omap::key(ID_PREFIX, &id))
}

/// Names with ids.
fn list(
    object: &mut dyn ObjectContext,
    (after, max): (Bytes, u64),
) -> Result<BTreeMap<Bytes, Bytes>> {
    Ok(omap::list(object, NAME_PREFIX, &after, max)?.into_iter().collect())
}

fn add(object: &mut dyn ObjectContext, (name, id): (Bytes, Bytes)) -> Result<()> {
    object.create(false)?;
    let taken = omap::contains(object, omap::key(ID_PREFIX, &id))?;
    store(object, name, id)?;
    if taken { Err(Errno::BADF.into()) } else { Ok(()) }
}

fn store(object: &mut dyn ObjectContext, name: Bytes, id: Bytes) -> Result<()> {
    if name.is_empty() || !is_valid_id(&id) {
        return Err(Errno::INVAL.into());
    }
    if omap::contains(object, omap::key(NAME_PREFIX, &name))? {
        return Err(Errno::EXIST.into());
    }
    object.omap_set(BTreeMap::from([
        omap::pair(omap::key(NAME_PREFIX, &name), &id),
        omap::pair(omap::key(ID_PREFIX, &id), &name),
    ]))
}

/// ESTALE if name and id do not belong together.
fn remove(object: &mut dyn ObjectContext, (name, id): (Bytes, Bytes)) -> Result<()> {
    let (name_key, id_key) = (omap::key(NAME_PREFIX, &name), omap::key(ID_PREFIX, &id));
    let stored_id: Bytes = omap::require(object, name_key.clone())?;
    let stored_name: Bytes = omap::require(object, id_key.clone())?;
    if stored_id != id || stored_name != name {
        return Err(Errno::STALE.into());
    }
    object.omap_remove(vec![name_key, id_key])
}

fn rename(object: &mut dyn ObjectContext, (old, new, id): (Bytes, Bytes, Bytes)) -> Result<()> {
    remove(object, (old, id.clone()))?;
    store(object, new, id)
}

/// ENOENT if the directory is in another state.
fn assert_state(object: &mut dyn ObjectContext, expected: u8) -> Result<()> {
    let state: u8 = omap::require(object, STATE)?;
    if state == expected { Ok(()) } else { Err(Errno::NOENT.into()) }
}

fn set_state(object: &mut dyn ObjectContext, state: u8) -> Result<()> {
    match state {
        STATE_READY => {}
        STATE_ADD_DISABLED => {
            crate::object::require_existing(object)?;
            if !omap::list::<Raw>(object, NAME_PREFIX, b"", 1)?.is_empty() {
                return Err(Errno::BUSY.into());
            }
        }
        _ => return Err(Failure::Errno(Errno::INVAL)),
    }
    omap::set(object, STATE, &state)
}

fn add_namespace(object: &mut dyn ObjectContext, name: Bytes) -> Result<()> {
    let key = omap::key(NAME_PREFIX, &name);
    if omap::contains(object, key.clone())? {
        return Err(Errno::EXIST.into());
    }
    omap::set(object, key, &())
}

fn remove_namespace(object: &mut dyn ObjectContext, name: Bytes) -> Result<()> {
    let key = omap::key(NAME_PREFIX, &name);
    if !omap::contains(object, key.clone())? {
        return Err(Errno::NOENT.into());
    }
    omap::remove(object, key)
}

fn namespaces(object: &mut dyn ObjectContext, (after, max): (Bytes, u64)) -> Result<Vec<Bytes>> {
    let listed = omap::list::<()>(object, NAME_PREFIX, &after, max)?;
    Ok(listed.into_iter().map(|(name, ())| name).collect())
}
