//! Keys of mirrored images in the omap of `rbd_mirroring`.

use crate::omap;
use bytes::Bytes;

pub(super) const IMAGE_PREFIX: &str = "image_";
const GLOBAL_PREFIX: &str = "global_";

pub(super) fn image(image: &[u8]) -> Bytes {
    omap::key(IMAGE_PREFIX, image)
}

pub(super) fn global_id(global_id: &[u8]) -> Bytes {
    omap::key(GLOBAL_PREFIX, global_id)
}
