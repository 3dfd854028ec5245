//! Reads of shards by the primary: for clients, for old rows of writes, for recovery.

use super::advance;
use super::rebuild::rebuilt_rows;
use super::repair::mark_corrupt;
use super::service::Service;
use super::sources::{note_strays, shard_sources};
use crate::rows::{
    self, ClientRead, Content, Done, Failed, Purpose, Read, ReadError, RowRequest, Versions,
};
use crate::{Member, Output};
use bytes::Bytes;
use types::{EVersion, HObject};

/// Reads data for a client.
pub fn read_shards(service: &mut Service<'_>, read: Read) {
    let geometry = service.core.placement.geometry().expect("the members keep shards");
    let client = ClientRead::new(geometry, read);
    match client.is_over() {
        true => end_read(service, client.read.ticket, Ok(Bytes::new())),
        false => read_window(service, client),
    }
}

/// Reads the next part of a client's read.
fn read_window(service: &mut Service<'_>, client: ClientRead) {
    let Read { ticket, object, version, .. } = client.read.clone();
    let request = RowRequest {
        purpose: Purpose::Client(ticket),
        wanted: client.wanted(),
        sources: shard_sources(service, &object, version),
        object,
        versions: Versions::Same(version),
        with_attrs: false,
    };
    service.core.rows.add_client(ticket, client);
    note_strays(service);
    rows::begin(service.core, request);
}

/// Goes on with what rows were read for.
pub fn rows_read(service: &mut Service<'_>, done: Done) {
    let Done { request, outcome, bad } = done;
    match request.purpose {
        Purpose::Client(_) | Purpose::Write(_) => suspect(service, &request, &bad),
        Purpose::Recovery => {}
    }
    match request.purpose {
        Purpose::Client(ticket) => client_rows(service, ticket, outcome),
        Purpose::Recovery => rebuilt_rows(service, &request.object, outcome, &bad),
        Purpose::Write(_) => advance::old_rows_read(service, &request, outcome),
    }
}

fn client_rows(service: &mut Service<'_>, ticket: u64, outcome: Result<Content, Failed>) {
    let Some(mut client) = service.core.rows.take_client(ticket) else { return };
    match outcome.map(|content| client.take(&content)) {
        Ok(None) => read_window(service, client),
        Ok(Some(data)) => end_read(service, ticket, Ok(data)),
        Err(Failed::Absent) => end_read(service, ticket, Err(ReadError::Absent)),
        Err(Failed::TooFew | Failed::MustDecode) => {
            end_read(service, ticket, Err(ReadError::TooFewShards));
        }
    }
}

/// These members cannot read their shards of an object, or do not have its version: they are replaced as
/// soon as no write of it is in flight.
fn suspect(service: &mut Service<'_>, request: &RowRequest, bad: &[Member]) {
    if bad.is_empty() {
        return;
    }
    let version = match request.versions {
        Versions::Same(version) => version,
        Versions::Each => EVersion::ZERO,
    };
    let suspects = &mut service.serving.recovery.suspects;
    let (newest, members) = suspects.entry(request.object.clone()).or_default();
    *newest = version.max(*newest);
    members.extend(bad);
    replace_suspects(service);
}

/// Marks suspected shards as missing, as far as that is possible now.
pub fn replace_suspects(service: &mut Service<'_>) {
    let objects: Vec<HObject> = service.serving.recovery.suspects.keys().cloned().collect();
    for object in objects {
        if service.view().is_in_work(&object) {
            continue;
        }
        let suspects = service.serving.recovery.suspects.remove(&object);
        let (version, bad) = suspects.expect("it was just there");
        if service.core.copy.is_removed(&object) {
            continue; // it was removed since
        }
        let version = version.max(service.core.copy.logged_version(&object));
        let bad: Vec<Member> = bad.into_iter().collect();
        mark_corrupt(service, &object, version, &bad);
    }
}

fn end_read(service: &mut Service<'_>, ticket: u64, outcome: Result<Bytes, ReadError>) {
    service.core.outputs.push_back(Output::Read { ticket, outcome });
}
