"""Child processes that end with their owner, however the owner ended.

The kernel is asked for it by the child itself, which then becomes the wanted program under the same process id. It
runs as a script in a bare interpreter, so it imports the standard library only.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Sequence

PR_SET_PDEATHSIG = 1


def tethered(command: Sequence[str]) -> list[str]:
    """The command line that runs `command` and kills it (SIGKILL) when this process ends.

    The kernel watches the thread that spawns the child: spawn from one that lives as long as the process. Only Linux
    knows this; elsewhere the child outlives a killed owner.
    """
    return [sys.executable, "-I", "-S", __file__, str(os.getpid()), *command]


def _become(owner: int, command: Sequence[str]) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    # The owner may have ended before the kernel was asked.
    if os.getppid() != owner:
        sys.exit(1)
    os.execvp(command[0], list(command))


if __name__ == "__main__":
    _become(int(sys.argv[1]), sys.argv[2:])
