"""Shared by scripts that start their own daemons: commands that must succeed, and waiting for something to become true."""
import subprocess, time

COMMAND_TIME_MAX, WAIT_TIME_MAX = 600, 60


class Wrong(Exception):
    pass


def run(*command, input="", timeout=COMMAND_TIME_MAX, **more):
    done = subprocess.run([str(word) for word in command], input=input, capture_output=True, text=True, timeout=timeout, **more)
    if done.returncode != 0: raise Wrong(f"{' '.join(map(str, command))}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def until(what, holds, limit=WAIT_TIME_MAX):
    """Asks again what fails; how long it took."""
    start, reason = time.monotonic(), ""
    while True:
        try:
            if holds(): return time.monotonic() - start
        except (Wrong, subprocess.TimeoutExpired) as wrong: reason = wrong
        if time.monotonic() - start > limit: raise Wrong(f"{what}: not within {limit} s {reason}")
        time.sleep(0.1)
