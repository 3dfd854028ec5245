#!/usr/bin/env python3
"""File locks through two mounts: what one client has locked, the other one waits for.

    two_locks.py DIRECTORY DIRECTORY
"""

import errno
import fcntl
import multiprocessing
import os
import sys


def refused(call, *arguments):
    try:
        call(*arguments)
    except OSError as error:
        return errno.errorcode[error.errno]
    return "success"


def same(found, expected, what):
    if found != expected:
        sys.exit(f"{what}: expected {expected}, found {found}")


def wait_for(path, lock, told):
    descriptor = os.open(path, os.O_RDWR)
    told.put("waits")
    told.put(refused(lock, descriptor))
    os.close(descriptor)


def waits_until(path, lock, release, what):
    """Another process waits for a lock until `release` is called."""
    told = multiprocessing.Queue()
    process = multiprocessing.Process(target=wait_for, args=(path, lock, told))
    process.start()
    same(told.get(timeout=20), "waits", what)
    process.join(0.5)
    same(process.is_alive() and told.empty(), True, what + " waits")
    release()
    same(told.get(timeout=20), "success", what)
    process.join()


def main():
    one, two = (os.path.join(directory, "locked") for directory in sys.argv[1:])
    first = os.open(one, os.O_CREAT | os.O_RDWR)
    second = os.open(two, os.O_RDWR)
    busy = ("EAGAIN", "EACCES")

    fcntl.flock(first, fcntl.LOCK_EX)
    same(refused(fcntl.flock, second, fcntl.LOCK_EX | fcntl.LOCK_NB), "EAGAIN", "flock")
    exclusive = lambda descriptor: fcntl.flock(descriptor, fcntl.LOCK_EX)
    waits_until(two, exclusive, lambda: fcntl.flock(first, fcntl.LOCK_UN), "flock")
    fcntl.flock(first, fcntl.LOCK_SH)
    fcntl.flock(second, fcntl.LOCK_SH)
    same(refused(fcntl.flock, first, fcntl.LOCK_EX | fcntl.LOCK_NB), "EAGAIN", "flock beside a reader")
    fcntl.flock(first, fcntl.LOCK_UN)
    fcntl.flock(second, fcntl.LOCK_UN)

    fcntl.lockf(first, fcntl.LOCK_EX, 100, 0)
    same(refused(fcntl.lockf, second, fcntl.LOCK_EX | fcntl.LOCK_NB, 10, 50) in busy, True, "the same bytes")
    fcntl.lockf(second, fcntl.LOCK_EX | fcntl.LOCK_NB, 10, 200)
    part = lambda descriptor: fcntl.lockf(descriptor, fcntl.LOCK_EX, 10, 90)
    waits_until(two, part, lambda: fcntl.lockf(first, fcntl.LOCK_UN, 20, 85), "a range")
    os.close(first)
    os.close(second)
    print("file locks are seen through both mounts")


main()
