//! Export of an image to a file. Zeros become holes where the output supports them.

use super::window::Window;
use crate::cli::ExportArgs;
use access::{BlockingClient, progress};
use anyhow::{Context, Result};
use indicatif::ProgressBar;
use rbd::{Image, Outcome, Piece, Request};
use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// Unit of comparison with zeros, in bytes.
const GRAIN: usize = 4096;

/// `sepiola image export`
pub fn export(args: &ExportArgs) -> Result<()> {
    let mut client = BlockingClient::open(&args.source.cluster)?;
    let header = client.open_header(&args.source.source)?;
    // Objects absent when the copy began are not read, unless a parent shows data there.
    let map = client.run(rbd::object_map(header.clone()))?;
    let mut image = Image::new(header, false)?;
    map.into_iter().for_each(|map| image.use_map(map));
    let mut output = Output::open(&args.file, image.size())?;
    let progress = progress(Some(image.size()));
    copy(&mut client, &mut image, &mut output, &progress)?;
    output.finish().with_context(|| format!("writing {}", args.file.display()))?;
    progress.finish_and_clear();
    client.close(image)
}

fn copy(
    client: &mut BlockingClient,
    image: &mut Image,
    output: &mut Output,
    progress: &ProgressBar,
) -> Result<()> {
    let (mut window, mut next) = (Window::new(), 0);
    let chunk = image.header().layout.object_size();
    loop {
        while next < image.size() && !window.is_full() {
            let length = chunk.min(image.size() - next);
            window.submit(image, next, Request::Read { offset: next, length });
            next += length;
        }
        if window.is_empty() {
            return Ok(());
        }
        let outcome = window.next(client, image)?;
        let Outcome::Data(pieces) = outcome else { continue };
        for piece in pieces {
            progress.inc(piece.len());
            output.write(&piece).context("writing the output")?;
        }
    }
}

enum Output {
    /// Skips zeros.
    Sparse(File),
    /// A pipe, which cannot skip zeros.
    Dense(Box<dyn Write>),
    /// A block device, which may hold other bytes than zeros.
    Device(io::BufWriter<File>),
}

impl Output {
    fn open(path: &Path, size: u64) -> Result<Self> {
        if path == Path::new("-") {
            return Ok(Output::Dense(Box::new(io::stdout())));
        }
        let mut options = File::options();
        let file = options.write(true).create(true).truncate(true).open(path);
        let file = file.with_context(|| format!("creating {}", path.display()))?;
        let kind = file.metadata()?.file_type();
        if kind.is_block_device() {
            return Ok(Output::Device(io::BufWriter::new(file)));
        }
        if !kind.is_file() {
            return Ok(Output::Dense(Box::new(io::BufWriter::new(file))));
        }
        file.set_len(size).with_context(|| format!("setting the size of {}", path.display()))?;
        Ok(Output::Sparse(file))
    }

    fn write(&mut self, piece: &Piece) -> io::Result<()> {
        match (self, piece) {
            (Output::Sparse(file), Piece::Data(data)) => write_sparsely(file, data),
            (Output::Sparse(file), Piece::Zeros(length)) => skip(file, *length),
            (Output::Dense(output), piece) => write_densely(output, piece),
            (Output::Device(output), piece) => write_densely(output, piece),
        }
    }

    fn finish(&mut self) -> io::Result<()> {
        match self {
            Output::Sparse(file) => file.sync_all(),
            Output::Dense(output) => output.flush(),
            Output::Device(output) => {
                output.flush()?;
                output.get_ref().sync_all()
            }
        }
    }
}

fn write_densely(output: &mut impl Write, piece: &Piece) -> io::Result<()> {
    match piece {
        Piece::Data(data) => output.write_all(data),
        Piece::Zeros(length) => {
            io::copy(&mut io::Read::take(io::repeat(0), *length), output).map(|_| ())
        }
    }
}

fn skip(file: &mut File, length: u64) -> io::Result<()> {
    file.seek(SeekFrom::Current(length as i64)).map(|_| ())
}

fn write_sparsely(file: &mut File, data: &[u8]) -> io::Result<()> {
    let mut rest = data;
    while !rest.is_empty() {
        let zeros = is_zero(&rest[..GRAIN.min(rest.len())]);
        let run = rest.chunks(GRAIN).take_while(|grain| is_zero(grain) == zeros);
        let (now, later) = rest.split_at(run.map(<[u8]>::len).sum());
        match zeros {
            true => skip(file, now.len() as u64)?,
            false => file.write_all(now)?,
        }
        rest = later;
    }
    Ok(())
}

/// Whether all bytes are zeros.
pub fn is_zero(bytes: &[u8]) -> bool {
    // Compares the bytes with themselves moved by one, which uses the machine's fast memory comparison.
    bytes.first().is_none_or(|first| *first == 0 && bytes[1..] == bytes[..bytes.len() - 1])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_are_recognised() {
        assert!(is_zero(&[]) && is_zero(&[0]) && is_zero(&[0; 4096]));
        assert!(!is_zero(&[1]) && !is_zero(&[0, 1]) && !is_zero(&[1, 0]) && !is_zero(&[1, 1]));
    }
}
