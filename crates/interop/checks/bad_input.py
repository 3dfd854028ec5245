"""Random bytes, truncated and oversized frames, absurd lengths: the daemon closes or ignores, and lives.

Every listening address of the cluster gets the same treatment; the caller looks at the daemon's memory.
"""
import json, os, random, socket, struct, subprocess, sys

SEED = int(os.environ.get("SEED", "1"))
random.seed(SEED)
BANNER = b"ceph v2\n" + struct.pack("<HQQ", 16, 1, 0)

def addresses():
    dump = json.loads(subprocess.check_output(["ceph", "osd", "dump", "-f", "json"]))
    for osd in dump["osds"]:
        yield osd["public_addrs"]["addrvec"][0]["addr"]
    mons = json.loads(subprocess.check_output(["ceph", "mon", "dump", "-f", "json"], stderr=subprocess.DEVNULL))
    for mon in mons["mons"]:
        yield mon["public_addrs"]["addrvec"][0]["addr"]

def attack(address, payload):
    host, port = address.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=5) as s:
        s.settimeout(0.05)
        try:
            s.sendall(payload)
            s.shutdown(socket.SHUT_WR)
            while s.recv(65536): pass
        except (OSError, socket.timeout):
            pass

def crc32c(data, crc=0xFFFFFFFF):
    for byte in data:
        crc ^= byte
        for _ in range(8): crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc

def preamble(tag, lengths):
    segments = b"".join(struct.pack("<IH", length, 8) for length in lengths).ljust(24, b"\0")
    head = bytes([tag, len(lengths)]) + segments + b"\0\0"
    return head + struct.pack("<I", crc32c(head))

def payloads():
    for length in (1, 7, 26, 100, 5000): yield random.randbytes(length)
    yield BANNER[:13]
    yield BANNER + random.randbytes(400)
    yield b"ceph v1\n" + random.randbytes(300)
    yield b"ceph v2\n" + struct.pack("<H", 65535) + random.randbytes(65535)
    for tag in range(0, 24): yield BANNER + preamble(tag, [60]) + random.randbytes(80)
    for length in (0xFFFFFFFF, 0x7FFFFFFF, 1 << 28): yield BANNER + preamble(1, [length]) + random.randbytes(1000)
    yield BANNER + preamble(17, [41, 0xFFFFFFFF, 0, 0xFFFFFFFF]) + random.randbytes(1000)
    yield BANNER + preamble(1, [30, 30, 30, 30, 30][:4]) * 50
    for _ in range(30):
        blob = bytearray(BANNER + preamble(1, [40]) + random.randbytes(44))
        blob[random.randrange(len(blob))] ^= 1 << random.randrange(8)
        yield bytes(blob)

count = 0
for address in set(addresses()):
    for payload in payloads():
        attack(address, payload); count += 1
# The cluster still answers.
subprocess.check_call(["ceph", "-s"], stdout=subprocess.DEVNULL)
print(count, "attacks survived")
