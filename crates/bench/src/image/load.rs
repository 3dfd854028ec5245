//! A load on an image: requests in flight and their generation.

use super::pattern::Pattern;
use crate::measurement::Work;
use access::BlockingClient;
use anyhow::{Result, bail};
use bytes::Bytes;
use engine::Time;
use rbd::{Image, Outcome, Piece, Request, RequestId};
use std::time::Duration;
use stdx::{FastMap, Prng};

/// Shape of the load, block by block.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// Order and kind of requests.
    pub pattern: Pattern,
    /// Bytes per request.
    pub block: u64,
    /// Requests in flight.
    pub depth: usize,
    /// Reads among mixed requests, in percent.
    pub read_percent: u64,
    /// Seed of payload and order.
    pub seed: u64,
}

/// An image, its client, and the requests in flight.
pub struct ImageLoad<'a> {
    client: &'a mut BlockingClient,
    image: &'a mut Image,
    shape: Shape,
    blocks: u64,
    payload: Bytes,
    prng: Prng,
    next: u64,
    in_flight: FastMap<RequestId, Time>,
    /// Bytes read, and those among them that were never written.
    read: u64,
    unwritten: u64,
}

impl<'a> ImageLoad<'a> {
    /// A load on an open image; fails if the image is smaller than one block.
    pub fn new(client: &'a mut BlockingClient, image: &'a mut Image, shape: Shape) -> Result<Self> {
        let blocks = image.size() / shape.block;
        if blocks == 0 {
            bail!("the image has {} bytes, less than one block of {}", image.size(), shape.block);
        }
        let mut prng = Prng::new(shape.seed);
        let mut payload = vec![0; shape.block as usize];
        prng.fill(&mut payload);
        let (payload, in_flight) = (payload.into(), FastMap::default());
        let (next, read, unwritten) = (0, 0, 0);
        Ok(ImageLoad {
            client,
            image,
            shape,
            blocks,
            payload,
            prng,
            next,
            in_flight,
            read,
            unwritten,
        })
    }

    /// Writes all blocks once.
    pub fn write_all(&mut self, mut heard: impl FnMut(u64)) -> Result<()> {
        let blocks = self.blocks;
        let mut done = 0;
        while done < blocks {
            let now = self.now();
            while self.next < blocks && self.in_flight.len() < self.shape.depth {
                let number = self.next;
                self.next += 1;
                self.submit(now, number, false);
            }
            self.turn()?;
            self.collect(&mut |_| done += 1)?;
            heard(done * self.shape.block);
        }
        Ok(())
    }

    /// Share of the bytes read that were never written, and so were not read from any OSD's disk.
    pub fn unwritten_share(&self) -> f64 {
        self.unwritten as f64 / self.read.max(1) as f64
    }

    fn submit(&mut self, now: Time, number: u64, is_read: bool) {
        let (offset, length) = (number * self.shape.block, self.shape.block);
        let request = match is_read {
            true => Request::Read { offset, length },
            false => Request::Write { offset, data: self.payload.clone() },
        };
        self.in_flight.insert(self.image.submit(request), now);
    }

    fn next_block(&mut self) -> u64 {
        if self.shape.pattern.is_random() {
            return self.prng.below(self.blocks);
        }
        let number = self.next % self.blocks;
        self.next = number + 1;
        number
    }

    fn count_read(&mut self, outcome: Outcome) {
        let Outcome::Data(pieces) = outcome else { return };
        for piece in pieces {
            self.read += piece.len();
            if let Piece::Zeros(length) = piece {
                self.unwritten += length;
            }
        }
    }
}

impl Work for ImageLoad<'_> {
    fn now(&self) -> Time {
        self.client.now()
    }

    fn wants_more(&self, is_in_time: bool) -> bool {
        is_in_time
    }

    fn fill(&mut self, now: Time) {
        while self.in_flight.len() < self.shape.depth {
            let is_read = match self.shape.pattern.always_reads() {
                Some(is_read) => is_read,
                None => self.prng.chance(self.shape.read_percent, 100),
            };
            let number = self.next_block();
            self.submit(now, number, is_read);
        }
    }

    fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    fn turn(&mut self) -> Result<()> {
        self.client.turn(self.image)
    }

    fn collect(&mut self, record: &mut dyn FnMut(Duration)) -> Result<()> {
        let now = self.client.now();
        while let Some((id, outcome)) = self.image.poll_completion() {
            self.count_read(outcome?);
            if let Some(started) = self.in_flight.remove(&id) {
                record(now.since(started));
            }
        }
        Ok(())
    }
}
