"""The operator's book: every command in it is run as it stands, on machines that boot systemd, from the package.

Needs SEPIOLA_DEB (the package), BOOK (docs/operations), SCRATCH (an empty directory), and what `containers` needs.

In a block of `console` a line `node1# COMMAND` is a command of root's on that machine, `each# COMMAND` one on all machines of
the chapter; `\\` at its end continues it, and `<<'EOF'` begins lines that end with `EOF`. Other lines are what commands print;
they are for the reader. A command that fails fails the check, with its place in the book.
"""
import os, pathlib, re, shlex, shutil, sys, time
from containers import Machines
from tools import Wrong

BOOK = pathlib.Path(os.environ["BOOK"])
SCRATCH = pathlib.Path(os.environ["SCRATCH"]).absolute()
DEB = pathlib.Path(os.environ["SEPIOLA_DEB"])
DISK_SIZE = 640 << 20
# Machines with their number of disks, and the chapters that are worked through on them, one after the other.
CLUSTERS = [
    ({"node1": 2}, ["one-machine.md"]),
    ({"node1": 1, "node2": 1, "witness": 0}, ["two-machines.md"]),
    ({"node1": 2, "node2": 2, "node3": 2}, ["three-machines.md", "osds.md", "control-plane.md", "security.md", "console.md", "file-system.md",
                                                 "packages.md"]),
]
PROMPT = re.compile(r"^([a-z]+[0-9]*)# (.*)$")
EACH = "each"


class Command:
    def __init__(self, place, machine, text):
        self.place, self.machine, self.text = place, machine, text


def commands(path):
    """Of a chapter, in their order."""
    found, lines, number, inside = [], path.read_text().splitlines(), 0, False
    while number < len(lines):
        line = lines[number]
        number += 1
        if line.startswith("```"):
            inside = line == "```console"
            continue
        match = PROMPT.match(line) if inside else None
        if not match: continue
        place, machine, text = f"{path.name}:{number}", *match.groups()
        while text.endswith("\\") or is_unfinished(text):
            if number == len(lines): raise Wrong(f"{place}: the command has no end")
            text += "\n" + lines[number]
            number += 1
        found.append(Command(place, machine, text))
    return found


def is_unfinished(text):
    return "<<'EOF'" in text and not text.endswith("\nEOF")


def copy(machines, source, words):
    """scp, which needs no server here."""
    def place(word):
        name, colon, path = word.rpartition(":")
        root = machines[name].root if colon else machines[source].root
        return root / path.lstrip("/") if path.startswith("/") else root / "root" / path
    *files, target = [place(word) for word in words if not word.startswith("-")]
    for file in files: shutil.copy(file, target)


def work_through(machines, names, chapter):
    for command in commands(BOOK / chapter):
        targets = names if command.machine == EACH else [command.machine]
        for name in targets:
            if name not in names: raise Wrong(f"{command.place}: there is no machine {name!r} here")
            start = time.monotonic()
            try:
                words = command.text.split()
                if words[0] == "scp": copy(machines, name, shlex.split(command.text)[1:])
                else: machines[name].shell(command.text, 180)
            except Exception as error:
                raise Wrong(f"{command.place}: on {name}: {error}") from error
            if VERBOSE: print(f"{command.place} {name}# {command.text}  ({time.monotonic() - start:.1f} s)", flush=True)


def check_complete():
    """A chapter that nobody works through would not be tested."""
    known = {chapter for _, chapters in CLUSTERS for chapter in chapters}
    for path in sorted(BOOK.glob("*.md")):
        if path.name not in known and commands(path): raise Wrong(f"{path.name} has commands, and no cluster in book.py")


VERBOSE = os.environ.get("VERBOSE") == "1"


def main():
    check_complete()
    only = sys.argv[1:]
    for disks, chapters in CLUSTERS:
        if only and chapters[0] not in only: continue
        start, names = time.monotonic(), list(disks)
        machines = Machines(SCRATCH / chapters[0], names, disks, DISK_SIZE)
        for name in names: shutil.copy(DEB, machines[name].root / "root")
        ran = 0
        for chapter in chapters:
            work_through(machines, names, chapter)
            ran += len(commands(BOOK / chapter))
        print(f"{', '.join(chapters)}: {ran} commands on {len(names)} machines, {time.monotonic() - start:.0f} s", flush=True)
        machines.remove()


if __name__ == "__main__": main()
