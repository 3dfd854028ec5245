//! Reads all objects and compares them with the expected content.

use super::plan::Plan;
use super::population::Expected;
use super::target::Target;
use access::Connection;
use anyhow::Result;
use rados::{OpId, Operation, Reply};
use serde::Serialize;
use std::collections::BTreeMap;
use types::Errno;
use wire::OsdOp;

/// Findings that are printed one by one.
const FINDINGS_MAX: usize = 20;

/// Result of reading objects back.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Verification {
    /// Objects that were read.
    pub objects: u64,
    /// Bytes that were read.
    pub bytes: u64,
    /// Names whose objects were deleted and are gone.
    pub absent: u64,
    /// Objects whose content differs from what was expected.
    pub wrong: u64,
    /// Objects that could not be read.
    pub unread: u64,
    /// The first findings.
    pub findings: Vec<String>,
}

struct Verifier<'a> {
    target: &'a Target,
    seed: u64,
    plan: &'a Plan,
    in_flight: BTreeMap<OpId, u32>,
    result: Verification,
}

/// `progress` gets the number of compared bytes.
pub fn verify(
    connection: &mut Connection,
    target: &Target,
    seed: u64,
    plan: &Plan,
    in_flight_max: usize,
    progress: impl Fn(u64),
) -> Result<Verification> {
    let (in_flight, result) = (BTreeMap::new(), Verification::default());
    let mut verifier = Verifier { target, seed, plan, in_flight, result };
    let is_known = |object: &u32| plan.population().expected(*object) != Expected::Unknown;
    let mut objects = (0..plan.population().names()).filter(is_known);
    loop {
        while verifier.in_flight.len() < in_flight_max {
            let Some(object) = objects.next() else { break };
            verifier.read(connection, object);
        }
        if verifier.in_flight.is_empty() {
            return Ok(verifier.result);
        }
        connection.turn()?;
        while let Some((id, answer)) = connection.client().poll_completion() {
            if let Some(object) = verifier.in_flight.remove(&id) {
                verifier.handle_answer(object, answer);
            }
        }
        progress(verifier.result.bytes);
    }
}

impl Verifier<'_> {
    fn read(&mut self, connection: &mut Connection, object: u32) {
        // A read without a length returns the whole object, even if it is longer than expected.
        let place = self.target.object(self.seed, object);
        let now = connection.now();
        let operation = Operation::new(place, vec![OsdOp::read(0, 0)]);
        let id = connection.client().submit(now, operation);
        self.in_flight.insert(id, object);
    }

    fn handle_answer(&mut self, object: u32, answer: Result<Reply, Errno>) {
        let outcome = match answer {
            Ok(Reply::Operation(reply)) => {
                let data = reply.ops.into_iter().next().map(|op| op.output).unwrap_or_default();
                self.compare(object, Some(&data))
            }
            Ok(_) | Err(Errno::NOENT) => self.compare(object, None),
            Err(errno) => {
                self.result.unread += 1;
                self.add_finding(object, &errno.to_string());
                return;
            }
        };
        if let Err(finding) = outcome {
            self.result.wrong += 1;
            self.add_finding(object, &finding);
        }
    }

    fn add_finding(&mut self, object: u32, finding: &str) {
        if self.result.findings.len() < FINDINGS_MAX {
            self.result.findings.push(format!("object {object}: {finding}"));
        }
    }

    /// `data` is `None` if the object does not exist.
    fn compare(&mut self, object: u32, data: Option<&[u8]>) -> Result<(), String> {
        match (self.plan.population().expected(object), data) {
            (Expected::Contents { contents, newest_generation }, Some(data)) => {
                self.result.objects += 1;
                self.result.bytes += data.len() as u64;
                contents.compare(self.seed, object, newest_generation, data)
            }
            (Expected::Contents { contents, .. }, None) => {
                Err(format!("does not exist, {} bytes were written", contents.size()))
            }
            (Expected::Absent, Some(data)) => {
                Err(format!("was deleted, but has {} bytes", data.len()))
            }
            (Expected::Absent, None) => {
                self.result.absent += 1;
                Ok(())
            }
            (Expected::Unknown, _) => Ok(()),
        }
    }
}
