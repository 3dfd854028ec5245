//! Resizing of an image.

use super::clone::copy_up_before_shrinking;
use crate::header;
use crate::lock::with_lock;
use crate::maintenance::resize::{check_shrinking, must_copy_up, resize_to};
use crate::task::Task;
use crate::{Error, ImageSpec};
use types::Errno;

/// Resizes an image. A shrink, which loses data, needs `may_shrink`. Data goes before the size changes, since
/// a later growth must show zeros.
pub fn resize(spec: ImageSpec, size: u64, may_shrink: bool) -> Task<()> {
    Task::new(async move |steps| {
        let header = header::read(&steps, &spec).await?;
        header.features.check_writable(&spec.to_string())?;
        if size < header.size {
            check_shrinking(&header, may_shrink)?;
        }
        if size == header.size {
            return Ok(());
        }
        copy_up_before_shrinking(&steps, &spec, &header, size).await?;
        let is_copied_up = must_copy_up(&header, size);
        with_lock(&steps, header, async |steps, header| {
            if size < header.size {
                // The image may have grown while the lock was requested.
                check_shrinking(header, may_shrink)?;
            }
            if !is_copied_up && must_copy_up(header, size) {
                let text = format!("{spec} got a snapshot meanwhile; resize it again");
                return Err(Error::cluster(text, Errno::AGAIN));
            }
            resize_to(steps, header, size).await
        })
        .await
    })
}
