//! Operations with results of the kernel given by hand.

use super::*;
use stdx::AlignedBuffer;

const BLOCK: usize = DIRECT_ALIGNMENT;

fn path() -> &'static Path {
    Path::new("/disk")
}

fn blocks(count: usize) -> Bytes {
    AlignedBuffer::zeroed(count * BLOCK).into()
}

fn write(pieces: Vec<Bytes>, vector: &mut Vector) -> Operation {
    let request = DiskRequest::Write { offset: 0, pieces, durable: true };
    Operation::new(FileId(0), 7, request, &mut BufferPool::default(), vector)
}

fn fault(progress: Progress) -> String {
    match progress {
        Progress::Done { token: 7, result: Err(fault) } => fault.to_string(),
        Progress::Done { token, result } => panic!("{token}: {result:?}"),
        Progress::More(entry) => panic!("{entry:?}"),
    }
}

#[test]
fn a_write_goes_on_where_the_kernel_stopped_at_whole_blocks() {
    let mut vector = Vector::default();
    let pieces = vec![blocks(2), blocks(1), blocks(3)];
    let starts: Vec<_> = pieces.iter().map(|piece| piece.as_ptr().addr()).collect();
    let mut operation = write(pieces, &mut vector);
    // Two blocks and a half.
    assert!(matches!(operation.advance(2 * 4096 + 2048, &mut vector, path()), Progress::More(_)));
    assert_eq!((operation.done, vector.parts[vector.next].iov_base.addr()), (8192, starts[1]));
    // The write ends in the middle of the last piece.
    assert!(matches!(operation.advance(2 * 4096, &mut vector, path()), Progress::More(_)));
    let rest = vector.parts[vector.next];
    assert_eq!((rest.iov_base.addr(), rest.iov_len), (starts[2] + 4096, 8192));
    let done = operation.advance(8192, &mut vector, path());
    assert!(matches!(done, Progress::Done { token: 7, result: Ok(bytes) } if bytes.is_empty()));
}

#[test]
fn pieces_that_are_neighbours_in_memory_are_one() {
    let mut vector = Vector::default();
    let whole = blocks(4);
    let apart = blocks(1);
    let pieces = vec![whole.slice(..BLOCK), whole.slice(BLOCK..3 * BLOCK), apart, blocks(1)];
    let length = vector.list(&pieces);
    assert_eq!(length, 5 * BLOCK as u64);
    assert_eq!(vector.parts[0].iov_len, 3 * BLOCK);
}

#[test]
fn a_write_of_which_nothing_is_done_is_an_error_and_not_tried_for_ever() {
    let mut vector = Vector::default();
    let mut operation = write(vec![blocks(1)], &mut vector);
    assert_eq!(
        fault(operation.advance(0, &mut vector, path())),
        "write of 4096 bytes at 0 of /disk: write zero"
    );
    let mut operation = write(vec![blocks(1)], &mut vector);
    for _ in 0..RETRIES_MAX {
        let again = operation.advance(-libc::EAGAIN, &mut vector, path());
        assert!(matches!(again, Progress::More(_)));
    }
    let text = fault(operation.advance(-libc::EAGAIN, &mut vector, path()));
    assert!(text.contains("(os error 11)"), "{text}");
}

#[test]
fn a_read_beyond_the_end_is_an_error() {
    let mut vector = Vector::default();
    let request = DiskRequest::Read { offset: 4096, length: 8192 };
    let mut operation =
        Operation::new(FileId(0), 7, request, &mut BufferPool::default(), &mut vector);
    assert!(matches!(operation.advance(4096, &mut vector, path()), Progress::More(_)));
    let text = fault(operation.advance(0, &mut vector, path()));
    assert_eq!(text, "read of 8192 bytes at 4096 of /disk: unexpected end of file");
}
