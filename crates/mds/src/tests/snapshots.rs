//! Snapshots as clients see them.

use super::*;

impl World {
    /// Asks; clients give back what stands in the way.
    fn change(&mut self, client: u64, request: ClientRequest) -> ClientReply {
        self.submit(client, request);
        while [1, 2].map(|client| self.obey_oldest(client)).contains(&true) {}
        self.take(client)
    }

    /// Attributes of a path.
    fn stat(&mut self, client: u64, path: &'static str) -> Result<InodeStat, i32> {
        let reply = self.change(client, look_up(path));
        reply.target.ok_or(reply.result)
    }

    fn flush_size(&mut self, file: &InodeStat, op: CapOp, size: u64, follows: u64) {
        let flush = ClientCaps {
            op,
            ino: file.ino,
            cap_id: if op == CapOp::FLUSHSNAP { 0 } else { file.cap.cap_id },
            seq: file.cap.seq,
            caps: file.cap.caps,
            wanted: file.cap.wanted,
            truncate_seq: 1,
            size,
            dirty: CapBits::FILE_WRITE,
            snap_follows: follows,
            ..ClientCaps::default()
        };
        self.send(1, &flush.encode(0));
    }
}

#[test]
fn a_snapshot_shows_what_was_there() {
    let mut world = World::new(&[1, 2]);
    world.ask(1, mkdir("s"));
    let file = world.create(1, "s/f");
    let reply = world.change(1, request(ClientOp::MKSNAP, "s//x"));
    let root = reply.target.expect("the directory as the snapshot shows it");
    assert_eq!((reply.result, root.snap), (0, 2));
    let told: Vec<ClientSnap> =
        std::iter::from_fn(|| world.try_take(1)).map(|(_, snap)| snap).collect();
    assert_eq!(told[0].op, ClientSnap::SPLIT);
    // The client had not written back its size, and tells it with its changes since.
    world.flush_size(&file, CapOp::FLUSHSNAP, 4, 1);
    world.flush_size(&file, CapOp::FLUSH, 9, 2);
    assert_eq!(world.stat(2, "s//x/f").map(|stat| (stat.size, stat.snap)), Ok((4, 2)));
    assert_eq!(world.stat(2, "s/f").map(|stat| stat.size), Ok(9));
    assert_eq!(world.ask(1, request(ClientOp::UNLINK, "s//x/f")).result, Errno::ROFS.negative());
    assert_eq!(world.stat(2, "s//x/f").map(|stat| (stat.size, stat.snap)), Ok((4, 2)));
    assert_eq!(world.change(1, request(ClientOp::UNLINK, "s/f")).result, 0);
    assert_eq!(world.stat(2, "s/f").map(|stat| stat.size), Err(Errno::NOENT.negative()));
    assert_eq!(world.stat(2, "s//x/f").map(|stat| (stat.size, stat.snap)), Ok((4, 2)));
    // Clients find it again by the entries of the snapshot.
    let dentry = world.change(2, look_up("s//x/f")).dentry.expect("the entry that was asked for");
    assert_eq!((dentry.directory.snap, &dentry.name[..]), (2, &b"f"[..]));
}
