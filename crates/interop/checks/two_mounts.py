#!/usr/bin/env python3
"""One name space through several mounts: what one client does, each other client sees at once.

Steps go to mounts at random, one after another, and are done on a model, too. Files stay open across steps, so
that clients hold capabilities while others change the same file.

    two_mounts.py SEED STEPS DIRECTORY DIRECTORY [DIRECTORY...]

The directories are one empty directory, as different mounts show it.
"""

import errno
import os
import random
import stat
import sys

NAMES = ["a", "b", "c", "d"]
SIZE = 200_000


class File:
    """A file of the model."""

    def __init__(self):
        self.data, self.mode, self.xattrs, self.links = bytearray(), 0o644, {}, 1


class Trial:
    def __init__(self, seed, mounts):
        self.random = random.Random(seed)
        self.mounts = mounts
        self.names = {}
        self.open = []
        self.log = []

    def path(self, name):
        self.mount = self.random.randrange(len(self.mounts))
        return os.path.join(self.mounts[self.mount], name)

    def note(self, *what):
        self.log.append(f"mount {self.mount}: " + " ".join(map(str, what)))

    def same(self, found, expected, what):
        if found != expected:
            print("\n".join(self.log[-40:]))
            sys.exit(f"{what} through mount {self.mount}: expected {expected!r:.200}, found {found!r:.200}")

    def same_data(self, found, data):
        if found != data:
            at = next((i for i, (a, b) in enumerate(zip(found, data)) if a != b), min(len(found), len(data)))
            self.same((len(found), found[at : at + 8]), (len(data), bytes(data[at : at + 8])), f"data at {at}")

    def fails(self, number, call, *arguments):
        try:
            call(*arguments)
        except OSError as error:
            return self.same(error.errno, number, call.__name__)
        self.same("success", errno.errorcode[number], call.__name__)

    def existing(self):
        """A name, its path through a mount, and its file; a name without one must be absent there."""
        name = self.random.choice(NAMES)
        path, file = self.path(name), self.names.get(name)
        if file is None:
            self.note("absent", name)
            self.fails(errno.ENOENT, os.stat, path)
        return name, path, file

    def step(self):
        steps = [self.create, self.write, self.write, self.append, self.read, self.read, self.truncate]
        steps += [self.status, self.status, self.chmod, self.xattr, self.rename, self.unlink, self.link, self.list]
        steps += [self.keep_open, self.use_open, self.use_open, self.use_open, self.close, self.times]
        self.random.choice(steps)()

    def create(self):
        name = self.random.choice(NAMES)
        path = self.path(name)
        self.note("create", name)
        if name in self.names:
            return self.fails(errno.EEXIST, os.open, path, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644))
        self.names[name] = File()

    def bytes(self):
        offset, length = self.random.randrange(SIZE), self.random.randrange(1, 20_000)
        return offset, bytes([self.random.randrange(256)]) * length

    @staticmethod
    def put(file, offset, data):
        file.data.extend(bytes(max(0, offset - len(file.data))))
        file.data[offset : offset + len(data)] = data

    def write(self):
        name, path, file = self.existing()
        if file is None:
            return
        offset, data = self.bytes()
        self.note("write", name, offset, len(data))
        descriptor = os.open(path, os.O_WRONLY)
        os.pwrite(descriptor, data, offset)
        os.close(descriptor)
        self.put(file, offset, data)

    def append(self):
        name, path, file = self.existing()
        if file is None:
            return
        _, data = self.bytes()
        self.note("append", name, len(data))
        with open(path, "ab") as handle:
            handle.write(data)
        file.data.extend(data)

    def read(self):
        name, path, file = self.existing()
        if file is None:
            return
        self.note("read", name)
        with open(path, "rb") as handle:
            self.same_data(handle.read(), file.data)

    def truncate(self):
        name, path, file = self.existing()
        if file is None:
            return
        size = self.random.randrange(SIZE)
        self.note("truncate", name, size)
        os.truncate(path, size)
        file.data[size:] = bytes(max(0, size - len(file.data)))
        if size > 0:
            # The server does not cut objects; the first write behind a truncation does.
            descriptor = os.open(path, os.O_WRONLY)
            os.pwrite(descriptor, b"x", 0)
            os.fsync(descriptor)
            os.close(descriptor)
            file.data[0:1] = b"x"

    def status(self):
        name, path, file = self.existing()
        if file is None:
            return
        self.note("stat", name)
        found = os.stat(path)
        found = (found.st_size, stat.S_IMODE(found.st_mode), found.st_nlink)
        self.same(found, (len(file.data), file.mode, file.links), "size, mode and links of " + name)

    def chmod(self):
        name, path, file = self.existing()
        if file is None:
            return
        file.mode = self.random.choice([0o600, 0o644, 0o755])
        self.note("chmod", name, oct(file.mode))
        os.chmod(path, file.mode)

    def times(self):
        name, path, file = self.existing()
        if file is None:
            return
        at = self.random.randrange(10**9)
        self.note("utime", name, at)
        os.utime(path, (at, at))
        path = self.path(name)
        self.same(int(os.stat(path).st_mtime), at, "mtime of " + name)

    def xattr(self):
        name, path, file = self.existing()
        if file is None:
            return
        key = self.random.choice(["user.x", "user.y"])
        self.note("xattr", name, key)
        if key in file.xattrs and self.random.random() < 0.5:
            self.same(os.getxattr(path, key), file.xattrs[key], "attribute of " + name)
        elif key in file.xattrs and self.random.random() < 0.3:
            os.removexattr(path, key)
            del file.xattrs[key]
        else:
            file.xattrs[key] = str(self.random.random()).encode()
            os.setxattr(path, key, file.xattrs[key])
        path = self.path(name)
        self.same(sorted(os.listxattr(path)), sorted(file.xattrs), "attributes of " + name)

    def rename(self):
        name, path, file = self.existing()
        if file is None:
            return
        to = self.random.choice(NAMES)
        self.note("rename", name, to)
        os.rename(path, os.path.join(os.path.dirname(path), to))
        replaced = self.names.get(to)
        if replaced is file:
            return
        if replaced is not None:
            replaced.links -= 1
        self.names[to] = self.names.pop(name)

    def unlink(self):
        name, path, file = self.existing()
        if file is None:
            return
        self.note("unlink", name)
        os.unlink(path)
        file.links -= 1
        del self.names[name]

    def link(self):
        name, path, file = self.existing()
        to = self.random.choice(NAMES)
        if file is None or to in self.names:
            return
        self.note("link", name, to)
        os.link(path, os.path.join(os.path.dirname(path), to))
        file.links += 1
        self.names[to] = file

    def list(self):
        path = self.path("")
        self.note("list")
        self.same(sorted(os.listdir(path)), sorted(self.names), "names")

    def keep_open(self):
        name, path, file = self.existing()
        if file is None or len(self.open) >= 6:
            return
        mode = self.random.choice([os.O_RDONLY, os.O_RDWR, os.O_WRONLY])
        self.note("open", name, mode)
        self.open.append((os.open(path, mode), mode, file, self.mount))

    def use_open(self):
        if not self.open:
            return
        descriptor, mode, file, self.mount = self.random.choice(self.open)
        if mode == os.O_RDONLY or mode == os.O_RDWR and self.random.random() < 0.5:
            self.note("read by descriptor", descriptor)
            self.same_data(os.pread(descriptor, 2 * SIZE, 0), file.data)
        else:
            offset, data = self.bytes()
            self.note("write by descriptor", descriptor, offset, len(data))
            os.pwrite(descriptor, data, offset)
            self.put(file, offset, data)

    def close(self):
        if self.open:
            descriptor, _, _, self.mount = self.open.pop(self.random.randrange(len(self.open)))
            self.note("close", descriptor)
            os.close(descriptor)


def main():
    seed, steps, *mounts = sys.argv[1:]
    trial = Trial(int(seed), mounts)
    for number in range(int(steps)):
        trial.step()
    for descriptor, *_ in trial.open:
        os.close(descriptor)
    print(f"{steps} steps of seed {seed} are seen alike through {len(mounts)} mounts")


main()
