"""A group of commands that is asked for without one of them says so."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_a_group_without_a_command_says_what_is_missing() -> None:
    tarry = Path(sys.executable).with_name("tarry")

    done = subprocess.run([tarry, "registry"], capture_output=True, text=True, timeout=60, check=False)

    assert (done.returncode, done.stderr.splitlines()[-1]) == (
        2,
        "tarry: a command is missing (`tarry registry --help`)",
    )
