"""How a command ends when it does not simply succeed: exit codes, and the line that says what to do.

Every error that a person can cause or put right is known here; whatever is not is a bug of ours.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import IntEnum

import typer
from temporalio.service import RPCError

from tarry.client import ServerUnavailable, TarryError
from tarry.codec import UnreadablePayload
from tarry.connect import ConnectError
from tarry.embedded import ServerError
from tarry.loading import LoadError
from tarry.settings import SettingsError
from tarry.store import StoreError
from tarry.subagents.files import FileError


class ExitCode(IntEnum):
    """Part of the command's contract (docs/cli.md)."""

    DONE = 0
    NO_ANSWER = 1
    PUT_RIGHT = 2
    TIMEOUT = 3
    BUG = 70
    INTERRUPTED = 130
    BROKEN_PIPE = 141


EXIT_CODES = (
    "Exit codes: 0 done · 1 the work ended without an answer, or what was asked for was refused · 2 something must be "
    "put right first, and one line says what · 3 the wait timed out · 70 a bug of ours · 130 interrupted."
)
"""Below the help of every command."""


class Problem(Exception):
    """A command's end other than success.

    Attributes:
        exit_code: of the process.
        kind: a stable word for programs.
        text: for a person, one line.
        facts: what else the JSON object holds.
    """

    def __init__(self, exit_code: int, kind: str, text: str, facts: Mapping[str, object] | None = None) -> None:
        super().__init__(text)
        self.exit_code = int(exit_code)
        self.kind = kind
        self.text = text
        self.facts = facts or {}


def problem_of(error: BaseException) -> Problem | None:
    """The problem behind an exception, None when it is none that we know."""
    match error:
        case Problem():
            return error
        case (
            ServerUnavailable()
            | ConnectError()
            | SettingsError()
            | StoreError()
            | ServerError()
            | LoadError()
            | FileError()
        ):
            return Problem(ExitCode.PUT_RIGHT, _kind(error), str(error))
        case UnreadablePayload():
            return Problem(ExitCode.PUT_RIGHT, "unreadable", f"what is asked for is not readable: {error}")
        case TarryError():
            return Problem(ExitCode.NO_ANSWER, _kind(error), str(error))
        case RPCError():
            reason = error.status.name.lower().replace("_", " ")
            text = f"the Temporal server failed ({reason}: {_one_line(error.message)}): try again"
            return Problem(ExitCode.PUT_RIGHT, "rpc_error", text)
        case typer.TyperException():
            said = _one_line(error.format_message()) or "a command is missing"
            return Problem(ExitCode.PUT_RIGHT, "usage", f"{said}{_help_of(error)}")
    return None


def _kind(error: Exception) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type(error).__name__).lower()


def _one_line(text: str) -> str:
    return " ".join(text.split()).rstrip(".")


def _help_of(error: typer.TyperException) -> str:
    context = getattr(error, "ctx", None)
    return f" (`{context.command_path} --help`)" if context is not None else ""
