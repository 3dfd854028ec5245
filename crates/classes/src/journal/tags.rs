//! Tags: numbered in order of creation, each in a class, whose newest tag is in force.

use super::values::{Client, SetPosition, Tag};
use super::{header, stored};
use crate::method::{Method, methods};
use crate::object::{ObjectContext, Result};
use crate::omap;
use bytes::Bytes;
use std::collections::BTreeMap;
use types::Errno;

pub(super) const METHODS: &[Method] = methods! {
    "get_next_tag_tid": READ => next,
    "get_tag": READ => get,
    "tag_create": READ_WRITE => create,
    "tag_list": READ => list,
};

const PREFIX: &str = "tag_";

fn key(number: u64) -> Bytes {
    omap::number_key(PREFIX, number)
}

fn next(object: &mut dyn ObjectContext, (): ()) -> Result<u64> {
    omap::require(object, header::NEXT_TAG)
}

fn get(object: &mut dyn ObjectContext, number: u64) -> Result<Tag> {
    omap::require(object, key(number))
}

fn create(object: &mut dyn ObjectContext, (number, class, data): (u64, u64, Bytes)) -> Result<()> {
    if omap::contains(object, key(number))? {
        return Err(Errno::EXIST.into());
    }
    if number != next(object, ())? {
        return Err(Errno::STALE.into());
    }
    let next_class: u64 = omap::require(object, header::NEXT_TAG_CLASS)?;
    let class = match class {
        Tag::CLASS_NEW => {
            omap::set(object, header::NEXT_TAG_CLASS, &next_class.wrapping_add(1))?;
            next_class
        }
        class if class >= next_class => return Err(Errno::INVAL.into()),
        class => class,
    };
    expire(object, None)?;
    omap::set(object, header::NEXT_TAG, &number.wrapping_add(1))?;
    omap::set(object, key(number), &Tag { number, class, data })
}

fn oldest(committed: &SetPosition) -> Option<u64> {
    committed.0.iter().map(|position| position.tag).min()
}

fn all(object: &mut dyn ObjectContext) -> Result<Vec<Tag>> {
    let listed: Vec<(Bytes, Tag)> = omap::list_all(object, PREFIX)?;
    Ok(listed.into_iter().map(|(_, tag)| tag).collect())
}

/// The tag of each class that is in force at `number`, the first tag at or behind it included.
fn in_force(tags: &[Tag], number: u64) -> BTreeMap<u64, u64> {
    let end = tags.partition_point(|tag| tag.number < number).saturating_add(1);
    tags.iter().take(end).map(|tag| (tag.class, tag.number)).collect()
}

/// Removes tags that no connected client needs; `leaving` is not counted. A client that has committed nothing
/// needs all tags.
pub(super) fn expire(object: &mut dyn ObjectContext, leaving: Option<&Bytes>) -> Result<()> {
    let mut clients = stored::clients(object)?;
    clients.retain(|client: &Client| client.is_connected() && Some(&client.id) != leaving);
    let oldest: Option<Vec<u64>> = clients.iter().map(|client| oldest(&client.committed)).collect();
    let Some(oldest) = oldest.and_then(|tags| tags.into_iter().min()) else { return Ok(()) };
    let tags = all(object)?;
    let in_force = in_force(&tags, oldest);
    let replaced = |tag: &&Tag| in_force.get(&tag.class).is_some_and(|newer| tag.number < *newer);
    let replaced: Vec<Bytes> = tags.iter().filter(replaced).map(|tag| key(tag.number)).collect();
    if replaced.is_empty() { Ok(()) } else { object.omap_remove(replaced) }
}

/// Tags that a client may meet from its position on, optionally of one class only.
fn list(
    object: &mut dyn ObjectContext,
    (after, max, client, class): (u64, u64, Bytes, Option<u64>),
) -> Result<Vec<Tag>> {
    let client = stored::client(object, client)?;
    let mut tags = all(object)?;
    let in_force = match oldest(&client.committed) {
        Some(oldest) => in_force(&tags, oldest),
        None => BTreeMap::new(),
    };
    tags.retain(|tag| {
        (after == 0 || tag.number > after)
            && in_force.get(&tag.class).is_none_or(|first| tag.number >= *first)
            && class.is_none_or(|class| tag.class == class)
    });
    tags.truncate(usize::try_from(max).unwrap_or(usize::MAX));
    Ok(tags)
}
