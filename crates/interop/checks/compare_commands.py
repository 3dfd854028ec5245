#!/usr/bin/env python3
"""Runs a list of commands with the stock `ceph` tool and compares the answers with those of a real Ceph.

  compare_commands.py --conf CONF --commands LIST --record ANSWERS.JSON    asks a real Ceph, and keeps its answers
  compare_commands.py --conf CONF --commands LIST --answers ANSWERS.JSON   asks a cluster, and compares with what was kept
                      [--differences FILE] [--verbose] [--raw FILE] [--client "chroot DIR"]

Compared are the exit status, the shape of JSON (every key that Ceph has, each value of the same type), and the text: numbers,
identifiers, addresses and times are masked, white space is folded. Of a refused command only the error's name is compared.
A line of LIST is a command; `= ` before it: it reads, so it is asked in plain text and in JSON; `- `: it prepares or cleans up, and
is not compared; `? `: only status and JSON's shape are compared, since the text is a table of measurements; `~ `: only the status.
FILE lists the deliberate differences: `kind<TAB>command<TAB>reason`; kind is status, json or text. Of JSON of which only some
fields differ on purpose, `<TAB>pattern` behind it says which: no other difference of that command is excused.

The tool runs where the client is (--client), one process for each command, forked from one that has imported it: starting an
interpreter 600 times would take minutes.
"""
import argparse, importlib.machinery, importlib.util, json, os, pathlib, re, shlex, subprocess, sys, tempfile

COMMAND_TIME_MAX = 40
MASKS = [
    (r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", "UUID"),
    (r"\b[A-Za-z0-9+/]{38}==", "KEY"),
    (r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?([+-]\d{4}|Z)?", "TIME"),
    (r"\[?(v\d:)?\d+\.\d+\.\d+\.\d+(:\d+)?(/\d+)?(,v\d:[\d.:/]+)*\]?", "ADDRESS"),
    (r"(sepiola version [^\n\"]*, like )?ceph version [\d.]+ \([0-9a-f]+\) \w+ \(stable\)( \(\d+\))?", "VERSION"),
    (r"\b[0-9a-f]{40}\b", "HASH"),
    (r"\b\d+(\.\d+)?(e[+-]\d+)?( ?([kKMGTPE]i?)?B\b)?", "N"),
]


def load_tool():
    path = next(os.path.join(p, "ceph") for p in ["/usr/bin", "/usr/local/bin"] if os.path.exists(os.path.join(p, "ceph")))
    loader = importlib.machinery.SourceFileLoader("ceph_tool", path)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("ceph_tool", loader))
    loader.exec_module(module)
    return module


def ask(tool, conf, words):
    """One command in a process of its own: status, standard output, standard error."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = os.fork()
        if child == 0:
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(out.fileno(), 1)
            os.dup2(err.fileno(), 2)
            sys.argv = ["ceph", "-c", conf, *words]
            import signal
            signal.alarm(COMMAND_TIME_MAX)
            status = 70
            try: status = tool.main() or 0
            except SystemExit as end: status = end.code if isinstance(end.code, int) else 1 if end.code else 0
            except BaseException as error: print(repr(error), file=sys.stderr)
            finally:
                sys.stdout.flush(), sys.stderr.flush()
                os._exit(status & 255)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        out.seek(0), err.seek(0)
        return {"status": code, "out": out.read().decode(errors="replace"), "err": err.read().decode(errors="replace")}


def run_all(conf):
    """In the client's root: commands as JSON on standard input, answers on standard output."""
    tool, results = load_tool(), []
    for line in json.load(sys.stdin):
        results.append([ask(tool, conf, words) for words in line])
    json.dump(results, sys.stdout)


def shape(value):
    """The shape of a value; lists have the union of their elements' shapes; keys that are names or numbers are one key."""
    if isinstance(value, dict):
        merged = {}
        for key, inner in value.items():
            name = "*" if re.search(r"[\d ./:]", key) else key
            merged[name] = union(merged.get(name), shape(inner))
        return merged
    if isinstance(value, list):
        inner = None
        for element in value: inner = union(inner, shape(element))
        return [inner]
    if isinstance(value, bool): return "bool"
    if isinstance(value, (int, float)): return "number"
    return "null" if value is None else "text"


def union(one, other):
    if one is None: return other
    if other is None: return one
    if isinstance(one, dict) and isinstance(other, dict):
        return {key: union(one.get(key), other.get(key)) for key in [*one, *(k for k in other if k not in one)]}
    if isinstance(one, list) and isinstance(other, list): return [union(one[0], other[0])]
    return one


def missing(theirs, ours, path="$"):
    """Differences of our shape from Ceph's."""
    if theirs is None or ours is None or theirs == "null" or ours == "null": return []
    if isinstance(theirs, dict):
        if not isinstance(ours, dict): return [f"{path}: an object there, {kind(ours)} here"]
        found = []
        for key, inner in theirs.items():
            if key not in ours:
                if key != "*" or ours: found.append(f"{path}.{key} is missing")
            else: found += missing(inner, ours[key], f"{path}.{key}")
        return found
    if isinstance(theirs, list):
        if not isinstance(ours, list): return [f"{path}: an array there, {kind(ours)} here"]
        return missing(theirs[0], ours[0], path + "[]")
    return [] if theirs == ours else [f"{path}: {theirs} there, {kind(ours)} here"]


def kind(value):
    return "an object" if isinstance(value, dict) else "an array" if isinstance(value, list) else value


def masked(text):
    """Lines with everything masked that differs from one cluster to the next; equal lines in a row count once."""
    lines = []
    for line in text.splitlines():
        for pattern, mask in MASKS: line = re.sub(pattern, mask, line)
        line = re.sub(r"[-+]{4,}", "----", re.sub(r"\s+", " ", line)).strip()
        if line and line != "Error ETIMEDOUT" and (not lines or lines[-1] != line): lines.append(line)
    return lines


def text_of(mark, text):
    """The compared part of plain text; of unrequested JSON only the shape, of measurements nothing."""
    try: return {"shape": shape(json.loads(text))} if text.lstrip()[:1] in ("{", "[") else [] if mark == "?" else masked(text)
    except ValueError: return [] if mark == "?" else masked(text)


def read_list(path):
    """Pairs of a mark and a command."""
    lines = [line.strip() for line in open(path)]
    lines = [line for line in lines if line and not line.startswith("#")]
    return [(line[0], line[2:]) if line[0] in "=-?~" and line[1] == " " else ("+", line) for line in lines]


def variants(mark, command):
    words = shlex.split(command)
    return [words, [*words, "--format", "json"]] if mark in "=?" else [words]


def answers(args, commands):
    asked = json.dumps([variants(mark, command) for mark, command in commands])
    client = args.client.split()
    if client:
        script = [*client, "python3", "-", "--run", args.conf]
        program = open(__file__).read().replace("json.load(sys.stdin)", f"json.loads({asked!r})", 1)
        done = subprocess.run(script, input=program, capture_output=True, text=True)
    else:
        done = subprocess.run([sys.executable, __file__, "--run", args.conf], input=asked, capture_output=True, text=True)
    if done.returncode: sys.exit(f"the client failed: {done.stderr}")
    if args.raw: pathlib.Path(args.raw).write_text(done.stdout)
    return [condensed(mark, command, given) for (mark, command), given in zip(commands, json.loads(done.stdout))]


def condensed(mark, command, given):
    """The part that is compared and recorded from a real Ceph: no values."""
    plain = given[0]
    failed = re.search(r"Error (E[A-Z]+)", plain["err"])
    kept = {"mark": mark, "command": command, "status": plain["status"]}
    if plain["status"]: kept["error"] = failed[1] if failed else ""
    elif mark == "~": pass
    else: kept["text"], kept["said"] = text_of(mark, plain["out"]), masked(plain["err"]) if mark != "?" else []
    if len(given) > 1:
        kept["json_status"] = given[1]["status"]
        try: kept["shape"] = shape(json.loads(given[1]["out"]))
        except ValueError: kept["shape"] = None if not given[1]["out"].strip() else "no JSON"
    kept["words"] = (plain["err"].strip() or plain["out"].strip())[-200:] if plain["status"] else ""
    return kept


def differences(theirs, ours):
    """Pairs of a kind and a sentence."""
    if theirs["mark"] == "-": return []
    found = []
    if theirs["status"] != ours["status"]:
        return [("status", f"{theirs['status']} {theirs.get('error', '')} there, {ours['status']} {ours.get('error', '')} here: {ours['words']}")]
    if theirs.get("json_status") != ours.get("json_status"):
        found.append(("json", f"status {theirs['json_status']} there, {ours['json_status']} here"))
    if "shape" in theirs and not theirs["json_status"] and not ours["json_status"]:
        if (theirs["shape"] is None) != (ours["shape"] is None) or "no JSON" in (theirs["shape"], ours["shape"]):
            if theirs["shape"] != ours["shape"]: found.append(("json", f"{kind(theirs['shape'])} there, {kind(ours['shape'])} here"))
        else: found += [("json", text) for text in missing(theirs["shape"], ours["shape"])]
    if not theirs["status"] and "text" in theirs:
        for name in ["text", "said"]:
            if isinstance(theirs[name], dict) and isinstance(ours[name], dict):
                found += [("json", "in plain text, " + text) for text in missing(theirs[name]["shape"], ours[name]["shape"])]
            elif theirs[name] != ours[name]:
                gone = [line for line in theirs[name] if line not in ours[name]] 
                new = [line for line in ours[name] if line not in theirs[name]]
                if gone or new: found.append(("text", "".join(f"\n      - {line}" for line in gone) + "".join(f"\n      + {line}" for line in new)))
    return found


def compare(args, commands):
    kept = {}
    for answer in json.load(open(args.answers)): kept.setdefault(answer["command"], []).append(answer)
    deliberate = {}
    if args.differences:
        rows = [line.rstrip("\n").split("\t") for line in open(args.differences) if line.strip() and not line.startswith("#")]
        deliberate = {(row[0], row[1]): re.compile(row[3] if len(row) > 3 else "") for row in rows}
    wrong, used, compared = 0, set(), 0
    for ours in answers(args, commands):
        command = ours["command"]
        if ours["mark"] == "-":
            kept.get(command, [None]).pop(0)
            if ours["status"] and args.verbose: print(f"  (preparation: ceph {command}: {ours['words']})")
            continue
        if not kept.get(command): sys.exit(f"no answer of Ceph is kept for `{command}`: record again")
        compared += 1
        for what, sentence in differences(kept[command].pop(0), ours):
            name = (what, command)
            if name in deliberate and deliberate[name].search(sentence): used.add(name)
            else:
                wrong += 1
                print(f"ceph {command}\n    {what}: {sentence}")
    for name in sorted(set(deliberate) - used): print(f"note: the deliberate difference {name} was not met")
    print(f"{compared} commands compared, {wrong} differences, {len(used)} deliberate ones")
    return 1 if wrong else 0


def main():
    if sys.argv[1:2] == ["--run"]: return run_all(sys.argv[2])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--conf", required=True)
    parser.add_argument("--commands", required=True)
    parser.add_argument("--record")
    parser.add_argument("--answers")
    parser.add_argument("--differences")
    parser.add_argument("--client", default="")
    parser.add_argument("--raw", help="where whole answers are kept, to look at")
    parser.add_argument("--verbose", action="store_true")
    args = parser.parse_args()
    commands = read_list(args.commands)
    if not args.record: return compare(args, commands)
    kept = answers(args, commands)
    with open(args.record, "w") as file:
        file.write("[\n" + ",\n".join(json.dumps({k: v for k, v in answer.items() if k != "words"}) for answer in kept) + "\n]\n")
    print(f"{len(kept)} answers kept in {args.record}")


if __name__ == "__main__": sys.exit(main())
