"""The shell commands that deliver a value to a parked task, ready to be pasted.

Pure. Ids, names and keys hold any characters: each argument is quoted for a POSIX shell, and JSON is written in ASCII,
so that no key can add a command, break a line or reorder what a terminal shows.
"""

from __future__ import annotations

import json
import shlex
from typing import Any

from signals.tokens import SignalKey


def wake_command(task_id: str, key: SignalKey, example: Any) -> str:
    """The `temporal` command that delivers `example`, JSON data, under `key`; it needs no worker (spec §3.3)."""
    value = json.dumps({"key": key.key, "value": example})
    return shlex.join(
        ["temporal", "workflow", "signal", "--workflow-id", task_id, "--name", key.signal, "--input", value]
    )


def signal_command(task_id: str, key: SignalKey, example: Any) -> str:
    """The `tarry` command that does the same and prints the answer. The key stands in it as it is."""
    values = [task_id, key.signal, key.key, json.dumps(example)]
    # A dash at the beginning would make an option of it.
    end_of_options = ["--"] if any(value.startswith("-") for value in values) else []
    return shlex.join(["tarry", "signal", *end_of_options, *values])
