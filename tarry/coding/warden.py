"""Runs one command and, when told to or when its owner is gone, kills it with everything that it started.

It runs as a script in a bare interpreter, so it imports the standard library only. The owner holds the other end of
standard input: when that closes, by will or since the owner was killed, the command has to end. Linux hands the
orphans among its descendants to this process, so none escapes by losing its parent; elsewhere its process group is
killed. What the command leaves running when it ends by itself goes on, and so may its output.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
import time

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
KILL_SECONDS = 5.0


def main(command: list[str]) -> int:
    """Run `command`; its exit code, 128 + n after signal n, 127 when there is no such program."""
    woken, waker = os.pipe()
    os.set_blocking(waker, False)
    signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    _adopt_orphans()
    try:
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True, preexec_fn=_end_with_parent)
    except OSError as error:
        print(f"{command[0]}: {error.strerror}", file=sys.stderr)
        return 127
    while (code := _reap(child.pid)) is None:
        ready, _, _ = select.select([sys.stdin, woken], [], [])
        if sys.stdin in ready:
            _kill_all(child.pid)
            return 128 + signal.SIGKILL
        os.read(woken, 64)
    if _descendants():
        _read_on()
    return code if code >= 0 else 128 - code


def _reap(child: int) -> int | None:
    """Take the ends of whatever has ended, adopted orphans among it; the exit code of `child` when it was there."""
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            if ended[0] == child:
                return os.waitstatus_to_exitcode(ended[1])
    return None


def _read_on() -> None:
    """Take what is written to the output from soon on: its owner stops reading, and what goes on would die of it."""
    with contextlib.suppress(OSError), open("/proc/self/fd/1", "rb") as output:
        command = ["/bin/sh", "-c", "sleep 1; exec cat"]
        subprocess.Popen(
            command, stdin=output, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/", start_new_session=True
        )


def _adopt_orphans() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)


def _end_with_parent() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _kill_all(child: int) -> None:
    """Kill descendants until there are none: those of the killed become children of this process."""
    with contextlib.suppress(OSError):
        os.killpg(child, signal.SIGKILL)
    ends = time.monotonic() + KILL_SECONDS
    while time.monotonic() < ends:
        for process in _descendants():
            # Gone meanwhile, or another user's: what runs as root on behalf of the command is not ours to kill.
            with contextlib.suppress(OSError):
                os.kill(process, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.002)


def _descendants() -> list[int]:
    """The processes below this one, from /proc; none where there is no /proc."""
    children: dict[int, list[int]] = {}
    with contextlib.suppress(FileNotFoundError):
        for name in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:
                # The name of the program, in parentheses, may hold anything.
                parent = int(file.read().rpartition(b")")[2].split()[1])
                children.setdefault(parent, []).append(int(name))
    found = [*children.get(os.getpid(), [])]
    for process in found:
        found += children.get(process, [])
    return found


if __name__ == "__main__":
    # Not by the interpreter's own end: nothing is left to be flushed or joined.
    os._exit(main(sys.argv[1:]))
