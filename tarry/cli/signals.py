"""`tarry signal` and `tarry receipt`: a value for a task, and what became of it."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from tarry.cli import render
from tarry.cli.exits import ExitCode, Problem
from tarry.cli.output import JsonOption, Output
from tarry.cli.running import run_async
from tarry.client import Harness
from tarry.core.people import person_problem
from tarry.core.waiting import SignalResult

_TAKEN = frozenset({"delivered", "duplicate", "accepted"})
_SAID = {
    "delivered": "delivered",
    "duplicate": "duplicate: the key held a value already, which stays",
    "accepted": "accepted by the server: the receipt tells more when a worker is up",
}
_SHOWN = 60

TaskArgument = Annotated[str, typer.Argument(help="The task's id, as `tarry ps` lists it.")]


def signal(
    task: TaskArgument,
    name: Annotated[str, typer.Argument(help="The signal's name.")],
    key: Annotated[str, typer.Argument(help="The key that the task waits on.")],
    value: Annotated[str | None, typer.Argument(help='JSON, such as \'{"status": "passed"}\' or \'"yes"\'.')] = None,
    input_file: Annotated[Path | None, typer.Option(help="A file that holds the value instead.")] = None,
    version: Annotated[int | None, typer.Option(min=1, help="Of the value; by default the task's current one.")] = None,
    delivery_id: Annotated[
        str | None, typer.Option(help="Names the delivery: a repeat under it delivers nothing and gives its answer.")
    ] = None,
    by: Annotated[str, typer.Option(help="The person who answers: the history of decisions keeps the name.")] = "",
    as_json: JsonOption = False,
) -> int:
    """Deliver a value to a task.

    No worker needs to be up: then the server keeps it. Ends with 0 also when the key held a value already, with 1 when
    the value was refused.
    """
    data = _value(value, input_file)
    return run_async(_signal(Output(as_json=as_json), task, name, key, data, version, delivery_id, by))


async def _signal(
    output: Output, task_id: str, name: str, key: str, value: Any, version: int | None, delivery_id: str | None, by: str
) -> int:
    if by and (problem := person_problem(by)) is not None:
        raise Problem(ExitCode.PUT_RIGHT, "usage", f"--by: {problem}")
    harness = await Harness.connect()
    result = await harness.signal(task_id, name, key, value, version=version, delivery_id=delivery_id, by=by)
    if output.as_json:
        output.json({"task_id": task_id, **result.model_dump(mode="json")})
    elif result.answer in _TAKEN:
        output.text(_SAID[result.answer])
    if result.answer == "accepted":
        output.remark(shlex.join(["tarry", "receipt", task_id, result.delivery_id]))
    if result.answer in _TAKEN:
        return ExitCode.DONE
    output.complaint(_refusal(result))
    return ExitCode.NO_ANSWER


def _refusal(result: SignalResult) -> str:
    return " ".join(f"{result.answer}: {result.reason}".split())


def _value(text: str | None, file: Path | None) -> Any:
    """The value as data.

    Raises:
        Problem: it is not there, twice there, or no JSON.
    """
    if (text is None) == (file is None):
        raise Problem(ExitCode.PUT_RIGHT, "usage", "give the value as JSON, or --input-file with a file that holds it")
    if file is None:
        assert text is not None
        return _parsed(
            text,
            f"the value {render.cut(render.plain(text), _SHOWN)}",
            f"quote it for the shell, such as {_advice(text)}",
        )
    try:
        return _parsed(file.read_text("utf-8"), f"what {file} holds", "put one JSON value into it")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise Problem(ExitCode.PUT_RIGHT, "no_file", f"{file} cannot be read: {reason}") from None


def _parsed(text: str, what: str, advice: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        # A text that is nested too deeply says nothing of a place.
        reason = f"{error.msg} at character {error.pos + 1}" if isinstance(error, json.JSONDecodeError) else str(error)
        raise Problem(ExitCode.PUT_RIGHT, "not_json", f"{what} is no JSON ({reason}): {advice}") from None


def _advice(text: str) -> str:
    """The text itself as JSON, when it could be meant as one."""
    is_word = text.isprintable() and 0 < len(text) <= _SHOWN and text[0] not in "{[\"'"
    return shlex.quote(json.dumps(text, ensure_ascii=False)) if is_word else '\'{"status": "passed"}\''


def receipt(
    task: TaskArgument,
    delivery: Annotated[str, typer.Argument(help="The delivery id, as `tarry signal --json` printed it.")],
    as_json: JsonOption = False,
) -> int:
    """Print what became of a delivery that the server accepted.

    A worker must be up to tell it. Refusals that `tarry signal` printed leave no receipt.
    """
    return run_async(_receipt(Output(as_json=as_json), task, delivery))


async def _receipt(output: Output, task_id: str, delivery_id: str) -> int:
    found = await (await Harness.connect()).receipt(task_id, delivery_id)
    if found is None:
        raise Problem(ExitCode.NO_ANSWER, "no_receipt", f"task {task_id} knows nothing of delivery {delivery_id}")
    if output.as_json:
        output.json({"task_id": task_id, **found.model_dump(mode="json")})
    else:
        output.rich(render.receipt(found))
    return ExitCode.DONE
