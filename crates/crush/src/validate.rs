//! Validation of maps.
//!
//! The mapper and the edits follow children without checks, so a map with a missing child or a cycle is
//! refused when it is decoded.

use crate::map::CrushMap;
use std::collections::BTreeMap;
use thiserror::Error;

/// Levels on any way from a root to a device. Ceph's own trees have at most one per type.
pub const TREE_DEPTH_MAX: usize = 64;

/// Nodes in the tree below any bucket, counted once per way that leads to them: linked buckets
/// could otherwise make trees that no walk ever finishes.
pub const TREE_NODES_MAX: u64 = 1 << 24;

/// Reason why the buckets of a map are no forest that the mapper can walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum TreeError {
    /// A bucket has a child that does not exist.
    #[error("bucket {bucket} holds {child}, which does not exist")]
    MissingChild {
        /// Id of the bucket.
        bucket: i32,
        /// Id of the child.
        child: i32,
    },
    /// A bucket lies below itself.
    #[error("bucket {bucket} is below itself")]
    Cycle {
        /// Id of the bucket.
        bucket: i32,
    },
    /// A path below the bucket has more than [`TREE_DEPTH_MAX`] levels.
    #[error("the tree at bucket {bucket} has more than {} levels", TREE_DEPTH_MAX)]
    TooDeep {
        /// Id of the bucket.
        bucket: i32,
    },
    /// The tree at the bucket has more than [`TREE_NODES_MAX`] nodes.
    #[error("the tree at bucket {bucket} has more than {} nodes", TREE_NODES_MAX)]
    TooLarge {
        /// Id of the bucket.
        bucket: i32,
    },
}

impl TreeError {
    pub(crate) fn bucket(self) -> i32 {
        match self {
            TreeError::MissingChild { bucket, .. }
            | TreeError::Cycle { bucket }
            | TreeError::TooDeep { bucket }
            | TreeError::TooLarge { bucket } => bucket,
        }
    }
}

#[derive(Clone, Copy)]
enum Mark {
    /// On the path from the bucket where the visit began.
    Open,
    Done {
        levels: usize,
        nodes: u64,
    },
}

/// Checks that all children exist, and that trees are finite, shallow and not absurdly large.
pub(crate) fn check_trees(map: &CrushMap) -> Result<(), TreeError> {
    let mut marks = BTreeMap::new();
    map.buckets().try_for_each(|bucket| visit(map, bucket.id, 1, &mut marks).map(|_| ()))
}

/// Depth and number of nodes of the tree at `id`, which is `depth` levels below the start of the visit.
fn visit(
    map: &CrushMap,
    id: i32,
    depth: usize,
    marks: &mut BTreeMap<i32, Mark>,
) -> Result<(usize, u64), TreeError> {
    match marks.get(&id) {
        Some(Mark::Done { levels, nodes }) => return Ok((*levels, *nodes)),
        Some(Mark::Open) => return Err(TreeError::Cycle { bucket: id }),
        None if depth >= TREE_DEPTH_MAX => return Err(TreeError::TooDeep { bucket: id }),
        None => marks.insert(id, Mark::Open),
    };
    let (mut levels, mut nodes) = (1, 1u64);
    for &child in map.children(id) {
        if child < 0 && map.bucket(child).is_none() {
            return Err(TreeError::MissingChild { bucket: id, child });
        }
        let below = if child < 0 { visit(map, child, depth + 1, marks)? } else { (1, 1) };
        levels = levels.max(1 + below.0);
        nodes = nodes.saturating_add(below.1);
    }
    if levels > TREE_DEPTH_MAX {
        return Err(TreeError::TooDeep { bucket: id });
    }
    if nodes > TREE_NODES_MAX {
        return Err(TreeError::TooLarge { bucket: id });
    }
    marks.insert(id, Mark::Done { levels, nodes });
    Ok((levels, nodes))
}
