//! Requests that were trimmed from the log (`pg_log_dup_t`).
//!
//! A client that was cut off may resend a request after the log was trimmed beyond it. So the replies of a
//! bounded number of trimmed requests are kept. Requests that are trimmed together form a batch: one value
//! in the store, one reference in memory and one blob in a message, all of the same bytes.
//!
//! Invariant: only committed writes are remembered, so members may remember more or fewer requests than
//! others, but never contradict them.

use crate::clients::Clients;
use crate::log_entry::LogEntry;
use crate::object_info::decode_request_id;
use crate::sizes::DUPS_KEPT;
use bytes::Bytes;
use codec::{Decode, Encode, Reader, Result, Writer};
use std::collections::VecDeque;
use stdx::FastSet;
use types::{EVersion, Epoch, RequestId};

const FORMAT: u8 = 1;
/// Bytes; a batch that is this long is closed, and another one begins.
const BATCH_BYTES_MAX: usize = 16 << 10;
/// Bytes of a batch's format and number of dups.
const BATCH_HEADER_LEN: usize = 5;
/// Bytes of a dup without the results and outputs of its operations.
const FIXED_LEN: usize = 49;
/// Bytes of a usual batch: logs are trimmed by a hundred entries.
const BATCH_LEN_USUAL: usize = BATCH_HEADER_LEN + 100 * FIXED_LEN;

/// A request that was executed, and its recorded reply.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LogDup {
    /// Client, incarnation and transaction id.
    pub request: RequestId,
    /// The version in the client's reply. Differs from the group's own numbering after a merge.
    pub version: EVersion,
    /// The object's version for clients (`user_version`) after the request.
    pub user_version: u64,
    /// The return code in the reply: zero, or a negative errno.
    pub result: i32,
    /// Return code and output of each operation, if the client asked for them.
    pub returns: Vec<(i32, Bytes)>,
}

impl From<&LogEntry> for LogDup {
    fn from(entry: &LogEntry) -> Self {
        LogDup {
            request: entry.request,
            version: entry.version,
            user_version: entry.user_version,
            result: entry.result,
            returns: entry.returns.clone(),
        }
    }
}

impl Decode for LogDup {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        Ok(LogDup {
            request: decode_request_id(r)?,
            version: r.value()?,
            user_version: r.u64("user version")?,
            result: r.i32("result")?,
            returns: r.value()?,
        })
    }
}

/// Requests that were trimmed together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DupBatch {
    /// The key of the batch: the version of its last write.
    pub through: EVersion,
    count: usize,
    encoded: Bytes,
}

impl DupBatch {
    /// Decodes a batch from the bytes of [`DupBatch::encoded`].
    pub fn decode(through: EVersion, encoded: &[u8]) -> Result<(Self, Vec<LogDup>)> {
        let mut r = Reader::new(encoded);
        let at = r;
        let format = r.u8("dups format")?;
        if format != FORMAT {
            return Err(at.invalid("dups format", format.into()));
        }
        let dups: Vec<LogDup> = r.value()?;
        r.finish("dups")?;
        // A copy, to not keep the whole receive buffer alive.
        let encoded = Bytes::copy_from_slice(encoded);
        Ok((DupBatch { through, count: dups.len(), encoded }, dups))
    }

    /// The bytes that are stored and sent.
    pub fn encoded(&self) -> &Bytes {
        &self.encoded
    }

    fn dups(&self) -> Vec<LogDup> {
        let decoded = DupBatch::decode(self.through, &self.encoded);
        decoded.map(|(_, dups)| dups).unwrap_or_default()
    }

    /// Decodes one dup after the other, because searches are rare and most find nothing.
    fn find(&self, request: &RequestId) -> Option<LogDup> {
        let mut r = Reader::new(self.encoded.get(BATCH_HEADER_LEN..)?);
        let mut dups = (0..self.count).map_while(|_| r.value::<LogDup>().ok());
        dups.find(|dup| dup.request == *request)
    }
}

/// A batch under construction.
#[derive(Debug, Default)]
struct Unfinished {
    through: EVersion,
    count: usize,
    bytes: Vec<u8>,
}

impl Unfinished {
    /// Appends a dup in the encoding of [`LogDup`]. Every write is added here once, so its part of fixed
    /// length is built first.
    fn add(
        &mut self,
        request: &RequestId,
        version: EVersion,
        user_version: u64,
        result: i32,
        returns: &[(i32, Bytes)],
    ) {
        let mut fixed = [0; FIXED_LEN];
        fixed[0] = request.name.kind.0;
        fixed[1..9].copy_from_slice(&request.name.number.to_le_bytes());
        fixed[9..17].copy_from_slice(&request.tid.to_le_bytes());
        fixed[17..21].copy_from_slice(&request.incarnation.to_le_bytes());
        fixed[21..29].copy_from_slice(&version.version.to_le_bytes());
        fixed[29..33].copy_from_slice(&version.epoch.0.to_le_bytes());
        fixed[33..41].copy_from_slice(&user_version.to_le_bytes());
        fixed[41..45].copy_from_slice(&result.to_le_bytes());
        fixed[45..].copy_from_slice(&(returns.len() as u32).to_le_bytes());
        if self.bytes.is_empty() {
            self.bytes.reserve(BATCH_LEN_USUAL);
            self.bytes.extend_from_slice(&[0; BATCH_HEADER_LEN]);
        }
        self.bytes.extend_from_slice(&fixed);
        for (result, output) in returns {
            self.bytes.extend_from_slice(&result.to_le_bytes());
            self.bytes.extend_from_slice(&(output.len() as u32).to_le_bytes());
            self.bytes.extend_from_slice(output);
        }
        self.count += 1;
    }

    fn finish(mut self) -> DupBatch {
        assert!(self.count > 0, "a batch has dups");
        assert!(
            self.bytes.len() >= BATCH_HEADER_LEN + self.count * FIXED_LEN,
            "dups have this length"
        );
        self.bytes[0] = FORMAT;
        self.bytes[1..BATCH_HEADER_LEN].copy_from_slice(&(self.count as u32).to_le_bytes());
        // Exactly sized, because it is kept for long.
        let encoded = Bytes::copy_from_slice(&self.bytes);
        DupBatch { through: self.through, count: self.count, encoded }
    }
}

/// Batches of trimmed requests, oldest first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Dups {
    batches: VecDeque<DupBatch>,
    count: usize,
    clients: Clients,
}

impl Dups {
    /// Number of requests.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether no dups are kept.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The batches, oldest first.
    pub fn batches(&self) -> impl ExactSizeIterator<Item = &DupBatch> {
        self.batches.iter()
    }

    /// All requests, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = LogDup> {
        self.batches.iter().flat_map(DupBatch::dups)
    }

    /// The version of the newest request.
    fn head(&self) -> EVersion {
        self.batches.back().map_or(EVersion::ZERO, |batch| batch.through)
    }

    /// The recorded reply of the request.
    pub fn find(&self, request: &RequestId) -> Option<LogDup> {
        if !self.clients.may_know(request) {
            return None;
        }
        self.batches.iter().rev().find_map(|batch| batch.find(request))
    }

    /// Remembers the requests of trimmed entries, except those that it has already because the log was
    /// extended at its tail since. Returns the number of new batches.
    pub(crate) fn remember<'a>(&mut self, entries: impl Iterator<Item = &'a LogEntry>) -> usize {
        let (before, head) = (self.batches.len(), self.head());
        let mut batch = Unfinished::default();
        for entry in entries.filter(|entry| entry.has_request() && entry.version > head) {
            let LogEntry { version, user_version, result, .. } = *entry;
            batch.add(&entry.request, version, user_version, result, &entry.returns);
            self.clients.note(&entry.request, version);
            batch.through = version;
            self.finish_if(batch.bytes.len() >= BATCH_BYTES_MAX, &mut batch);
        }
        self.finish_if(batch.count > 0, &mut batch);
        assert!(self.head() >= head, "newer requests are added");
        self.batches.len() - before
    }

    fn finish_if(&mut self, is_full: bool, batch: &mut Unfinished) {
        if is_full {
            let batch = std::mem::take(batch).finish();
            self.count += batch.count;
            self.batches.push_back(batch);
        }
    }

    /// Adds a batch that is newer than all others, with its decoded content.
    pub(crate) fn push(&mut self, batch: DupBatch, dups: &[LogDup]) {
        dups.iter().for_each(|dup| self.clients.note(&dup.request, batch.through));
        self.count += batch.count;
        self.batches.push_back(batch);
    }

    /// Drops the oldest batches beyond [`DUPS_KEPT`]; returns the version of the last dropped one.
    pub(crate) fn shorten(&mut self) -> Option<EVersion> {
        let mut last = None;
        while let Some(batch) = self.batches.front()
            && self.count - batch.count >= DUPS_KEPT
        {
            self.count -= batch.count;
            last = self.batches.pop_front().map(|batch| batch.through);
        }
        if let Some(last) = last {
            self.clients.forget(last);
        }
        last
    }

    /// The newest requests of two groups that are merged, in batches with versions of `epoch`. `known` has
    /// the requests of each, newest first.
    pub(crate) fn merged(epoch: Epoch, known: [Vec<LogDup>; 2]) -> Self {
        let mut known = known.map(Vec::into_iter);
        let mut newest: Vec<LogDup> = Vec::new();
        let mut seen = FastSet::default();
        while newest.len() < DUPS_KEPT && known.iter().any(|known| known.len() > 0) {
            // Both have the requests from before a split.
            let next = known.iter_mut().filter_map(Iterator::next);
            newest.extend(next.filter(|dup| seen.insert(dup.request)));
        }
        let (mut dups, mut batch) = (Dups::default(), Unfinished::default());
        for (version, dup) in (1..).zip(newest.iter().rev()) {
            batch.add(&dup.request, dup.version, dup.user_version, dup.result, &dup.returns);
            batch.through = EVersion { epoch, version };
            dups.clients.note(&dup.request, batch.through);
            dups.finish_if(batch.bytes.len() >= BATCH_BYTES_MAX, &mut batch);
        }
        dups.finish_if(batch.count > 0, &mut batch);
        dups
    }
}

impl Encode for Dups {
    fn encode(&self, w: &mut Writer) {
        w.count(self.batches.len());
        for batch in &self.batches {
            w.value(&batch.through);
            w.blob(&batch.encoded);
        }
    }
}

impl Decode for Dups {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let mut dups = Dups::default();
        r.list("dups", |r| {
            let through = r.value()?;
            let (batch, content) = DupBatch::decode(through, r.blob("batch of dups")?)?;
            dups.push(batch, &content);
            Ok(())
        })?;
        Ok(dups)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::{EntityType, ParticipantName};

    fn entry(client: i64, number: u64) -> LogEntry {
        let name = ParticipantName::new(EntityType::CLIENT, client);
        LogEntry {
            version: EVersion::new(1, number),
            user_version: number,
            request: RequestId { name, tid: number, incarnation: 0 },
            result: 7,
            returns: vec![(1, Bytes::from_static(b"out"))],
            ..LogEntry::default()
        }
    }

    /// The dups of `count` entries that were trimmed by a hundred.
    fn dups(client: i64, count: u64) -> Dups {
        let entries: Vec<LogEntry> = (1..=count).map(|number| entry(client, number)).collect();
        let mut dups = Dups::default();
        for trimmed in entries.chunks(100) {
            dups.remember(trimmed.iter());
            dups.shorten();
        }
        dups
    }

    fn knows(dups: &Dups, client: i64, number: u64) -> bool {
        let entry = entry(client, number);
        let found = dups.find(&entry.request);
        assert!(found.iter().all(|found| *found == LogDup::from(&entry)));
        found.is_some()
    }

    #[test]
    fn the_newest_requests_are_known_and_older_ones_forgotten() {
        let mut dups = dups(4, 10_000);
        assert_eq!(dups.len(), DUPS_KEPT);
        assert!(knows(&dups, 4, 10_000) && knows(&dups, 4, 7001));
        assert!(!knows(&dups, 4, 7000) && !knows(&dups, 4, 10_001) && !knows(&dups, 5, 8000));
        let others: Vec<LogEntry> = (10_001..=14_000).map(|number| entry(5, number)).collect();
        for trimmed in others.chunks(100) {
            dups.remember(trimmed.iter());
            dups.shorten();
        }
        assert_eq!(dups.clients.len(), 1, "a client of which nothing is left is forgotten");
    }

    #[test]
    fn what_is_known_already_is_not_remembered_again() {
        let mut dups = dups(4, 100);
        let again: Vec<LogEntry> = (50..=120).map(|number| entry(4, number)).collect();
        assert_eq!(dups.remember(again.iter()), 1);
        assert_eq!(dups.len(), 120);
        assert_eq!(dups.remember([LogEntry::empty(EVersion::new(2, 121))].iter()), 0);
    }

    #[test]
    fn long_answers_make_short_batches() {
        let mut long = entry(4, 1);
        long.returns = vec![(0, Bytes::from(vec![7; BATCH_BYTES_MAX]))];
        let mut dups = Dups::default();
        assert_eq!(dups.remember([long, entry(4, 2)].iter()), 2);
        assert!(knows(&dups, 4, 2));
    }

    #[test]
    fn dups_round_trip_and_every_truncation_is_an_error() {
        let dups = dups(4, 120);
        let bytes = codec::encode_to_bytes(&dups);
        assert_eq!(codec::decode_all::<Dups>("dups", &bytes).unwrap(), dups);
        for end in 0..bytes.len() {
            assert!(codec::decode_all::<Dups>("dups", &bytes[..end]).is_err());
        }
    }

    #[test]
    fn of_two_groups_the_newest_of_both_are_known() {
        let known = |dups: Dups| dups.iter().collect::<Vec<_>>().into_iter().rev().collect();
        let merged = Dups::merged(Epoch(9), [known(dups(4, 4000)), known(dups(5, 200))]);
        assert_eq!(merged.len(), DUPS_KEPT);
        assert!(knows(&merged, 4, 4000) && knows(&merged, 4, 1201) && knows(&merged, 5, 1));
        assert!(!knows(&merged, 4, 1200));
        assert!(merged.batches().is_sorted_by_key(|batch| batch.through));
        assert!(merged.batches().all(|batch| batch.through.epoch == Epoch(9)));
    }

    #[test]
    fn what_both_know_counts_once() {
        let known = || dups(4, 3000).iter().collect::<Vec<_>>().into_iter().rev().collect();
        let merged = Dups::merged(Epoch(9), [known(), known()]);
        assert_eq!(merged.len(), DUPS_KEPT);
        assert!(knows(&merged, 4, 1));
    }
}
