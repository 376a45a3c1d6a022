"""The `tarry` command: a thin shell around the client and around processes of ours.

Whatever happens, a person gets one line and an exit code, a program one JSON object (docs/cli.md). Nothing here imports
workflows, activities or workers: those run in children of their own.
"""

from __future__ import annotations

import logging
import os
import sys
import traceback
from collections.abc import Sequence

from temporalio.runtime import Runtime, TelemetryConfig

from tarry.cli.command import app
from tarry.cli.exits import ExitCode, Problem, problem_of
from tarry.cli.output import JSON_FLAG, Output


def main() -> None:
    """The console script."""
    sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]
    sys.stderr.reconfigure(errors="replace")  # type: ignore[union-attr]
    if not _is_debugging():
        _silence_libraries()
    code = run(sys.argv[1:])
    sys.stderr.flush()
    # The SDK's threads may still be letting go of the interpreter, which then aborts in its own teardown
    # (temporalio/sdk-python issue 300): exit codes are a promise here.
    os._exit(code)


def _is_debugging() -> bool:
    return os.environ.get("TARRY_DEBUG") == "1"


def _silence_libraries() -> None:
    """What goes wrong is told by the command; the SDK would write its own account of it to stdout."""
    logging.getLogger().addHandler(logging.NullHandler())
    Runtime.set_default(Runtime(telemetry=TelemetryConfig(logging=None)))


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code; no exception leaves this."""
    try:
        code = app(list(arguments), standalone_mode=False, prog_name="tarry")
        sys.stdout.flush()
    except (BrokenPipeError, SystemExit):
        # Who read our output has left (typer makes an exit of that); flushing must not meet the closed pipe once more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.BROKEN_PIPE
    except Exception as error:
        return _report(error, Output(as_json=_wants_json(arguments)))
    return code if isinstance(code, int) else ExitCode.DONE


def _report(error: Exception, output: Output) -> int:
    problem = problem_of(error)
    if problem is None:
        if _is_debugging():
            traceback.print_exception(error)
        text = f"unexpected {type(error).__name__}: {error} (TARRY_DEBUG=1 shows where)"
        problem = Problem(ExitCode.BUG, "bug", text)
    output.problem(problem)
    return problem.exit_code


def _wants_json(arguments: Sequence[str]) -> bool:
    """Also when the arguments could not be parsed."""
    options = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return JSON_FLAG in options
