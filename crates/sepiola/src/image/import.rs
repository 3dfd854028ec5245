//! Import of a file into a new image. Zeros are not written, since absent objects read as zeros.

use super::export::is_zero;
use super::target::{begin, shaped};
use super::window::Window;
use crate::cli::ImportArgs;
use access::{BlockingClient, progress};
use anyhow::{Context, Result, bail};
use bytes::Bytes;
use indicatif::ProgressBar;
use rbd::{Image, Request};
use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::ops::Range;
use std::path::Path;

/// Unit of comparison with zeros, in bytes.
const GRAIN: usize = 64 << 10;

/// `sepiola image import`
pub fn import(args: &ImportArgs) -> Result<()> {
    let mut input = Input::open(&args.file)?;
    let size = image_size(args.size, input.size()?)?;
    let (mut client, image) = begin(&args.cluster, &args.image)?;
    let spec = shaped(&mut client, image.clone(), size, &args.shape)?;
    client.run(rbd::create(spec))?;
    let outcome = fill(&mut client, &mut input, image.clone(), size);
    if outcome.is_err() {
        eprintln!("sepiola: {image} is incomplete; `sepiola image rm {image}` removes it");
    }
    outcome
}

fn image_size(wanted: Option<u64>, length: Option<u64>) -> Result<u64> {
    match (wanted, length) {
        (Some(size), Some(length)) if size < length => {
            bail!("the input has {length} bytes, of which only {size} fit the image (--size)")
        }
        (wanted, length) => wanted.or(length).context(
            "standard input does not say how long it is: give the image's size with --size",
        ),
    }
}

fn fill(
    client: &mut BlockingClient,
    input: &mut Input,
    spec: rbd::ImageSpec,
    size: u64,
) -> Result<()> {
    let mut image = client.open_image(spec, true)?;
    let progress = progress(Some(size));
    let outcome = copy(client, input, &mut image, &progress);
    progress.finish_and_clear();
    // The watch is unregistered even if the import failed.
    let closed = client.close(image);
    outcome.and(closed)
}

fn copy(
    client: &mut BlockingClient,
    input: &mut Input,
    image: &mut Image,
    progress: &ProgressBar,
) -> Result<()> {
    let (mut window, mut offset) = (Window::new(), 0);
    let chunk = image.header().layout.object_size();
    while offset < image.size() {
        offset = input.next_data(offset, image.size())?;
        progress.set_position(offset);
        let length = (chunk - offset % chunk).min(image.size() - offset);
        let data = input.read(length as usize).context("reading the input")?;
        let is_last = (data.len() as u64) < length;
        for part in parts_with_data(&data) {
            if window.is_full() {
                window.next(client, image)?;
            }
            let at = offset + part.start as u64;
            window.submit(image, at, Request::Write { offset: at, data: data.slice(part) });
        }
        offset += data.len() as u64;
        if is_last {
            break;
        }
    }
    while !window.is_empty() {
        window.next(client, image)?;
    }
    // The length of files was checked before.
    if let Input::Stream(_) = input
        && !input.read(1)?.is_empty()
    {
        bail!("standard input is longer than the image's {} bytes (--size)", image.size());
    }
    Ok(())
}

/// Runs of grains that are not all zeros.
fn parts_with_data(data: &Bytes) -> Vec<Range<usize>> {
    let mut parts: Vec<Range<usize>> = Vec::new();
    for (number, grain) in data.chunks(GRAIN).enumerate() {
        let (start, end) = (number * GRAIN, number * GRAIN + grain.len());
        match parts.last_mut() {
            _ if is_zero(grain) => {}
            Some(last) if last.end == start => last.end = end,
            _ => parts.push(start..end),
        }
    }
    parts
}

enum Input {
    File(File),
    Stream(io::Stdin),
}

impl Input {
    fn open(path: &Path) -> Result<Self> {
        if path == Path::new("-") {
            return Ok(Input::Stream(io::stdin()));
        }
        let file = File::open(path).with_context(|| format!("opening {}", path.display()))?;
        if file.metadata()?.is_dir() {
            bail!("{} is a directory; an image is made of one file or device", path.display());
        }
        Ok(Input::File(file))
    }

    /// Size of the input; also of devices.
    fn size(&mut self) -> Result<Option<u64>> {
        let Input::File(file) = self else { return Ok(None) };
        let size = file.seek(io::SeekFrom::End(0)).context("finding out how long the input is")?;
        file.rewind()?;
        Ok(Some(size))
    }

    /// Offset of the next data from `offset` on; `end` if there is none.
    fn next_data(&mut self, offset: u64, end: u64) -> Result<u64> {
        let Input::File(file) = self else { return Ok(offset) };
        match seek(&*file, SeekFrom::Data(offset)) {
            Ok(found) => Ok(found.min(end)),
            Err(Errno::NXIO) => Ok(end),
            // A device, or a file system that does not report holes.
            Err(_) => Ok(file.seek(io::SeekFrom::Start(offset))?),
        }
    }

    fn read(&mut self, length: usize) -> io::Result<Bytes> {
        let mut data = Vec::with_capacity(length);
        match self {
            Input::File(file) => file.take(length as u64).read_to_end(&mut data)?,
            Input::Stream(stream) => stream.take(length as u64).read_to_end(&mut data)?,
        };
        Ok(data.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_not_cut_off() {
        assert_eq!(image_size(None, Some(5)).unwrap(), 5);
        assert_eq!(image_size(Some(7), Some(5)).unwrap(), 7);
        assert!(image_size(Some(4), Some(5)).is_err() && image_size(None, None).is_err());
    }

    #[test]
    fn zeros_are_left_out() {
        let mut data = vec![0; 4 * GRAIN + 10];
        data[GRAIN] = 1;
        data[2 * GRAIN + 5] = 1;
        data[4 * GRAIN + 9] = 1;
        let expected = [GRAIN..3 * GRAIN, 4 * GRAIN..4 * GRAIN + 10];
        assert_eq!(parts_with_data(&data.into()), expected);
        assert!(parts_with_data(&vec![0; GRAIN].into()).is_empty());
    }
}
