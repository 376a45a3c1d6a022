"""From what a tool returned to an outcome that fits into history, large text by reference.

Whatever happens to the store, the tool ran and its result is told: it is never run again because of
how large or how odd that result is (spec §4.5, §4.11).
"""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any

from temporalio import activity
from temporalio.client import Client

from activities.output import Output
from activities.runner import ToolThread, undisturbed
from tarry.acknowledged import Acknowledged
from tarry.connect import INLINE_BYTES
from tarry.core import results
from tarry.core.protocol import ToolOutcome
from tarry.core.results import Diagnostic
from tarry.core.run_hooks import input_text
from tarry.core.text import MAX_MODEL_BYTES, Bounded, bound_text, clean_text
from tarry.store import BlobStore
from tarry.tools import Tool, ToolResult

MAX_STRUCTURED_BYTES = 64 * 1024
STORE_SECONDS = 10.0
ENCODE_SECONDS = 15.0
"""How long a result may take to become text, its storing included."""


class Outcomes:
    """Makes outcomes; the whole of a text that is cut goes to `blobs`."""

    def __init__(self, client: Client, blobs: BlobStore) -> None:
        self._converter = client.data_converter
        self._blobs = blobs

    async def of_value(
        self, tool: Tool, value: Any, output: Output, diagnostics: tuple[Diagnostic, ...], *, nested: bool
    ) -> ToolOutcome:
        """The outcome of a tool that returned `value`; `nested`: for a task that reads structured output.

        Encoding runs the application's own serializers, so it has a thread of its own, as the tool had.
        """
        home = asyncio.get_running_loop()
        thread = ToolThread(
            lambda: self._encode(tool, value, output, diagnostics, home, nested=nested),
            threading.Event(),
            f"tarry-encode-{tool.name}",
        )
        ended = await undisturbed(thread.wait(ENCODE_SECONDS))
        if ended is None:
            return results.unencodable(tool.name, f"it took longer than {ENCODE_SECONDS:g} s", diagnostics)
        if ended.error is not None:
            return results.unencodable(tool.name, _problem(ended.error), diagnostics)
        outcome: ToolOutcome = ended.value
        return outcome

    def _encode(
        self,
        tool: Tool,
        value: Any,
        output: Output,
        diagnostics: tuple[Diagnostic, ...],
        home: asyncio.AbstractEventLoop,
        *,
        nested: bool,
    ) -> ToolOutcome:
        result = value if isinstance(value, ToolResult) else ToolResult(value)
        structured, breach = _structured(tool, result)
        if breach and nested:
            return results.invalid_structured_output(tool.name, breach, diagnostics)
        if breach:
            diagnostics = (*diagnostics, Diagnostic(severity="warn", message=breach, code="invalid_structured_output"))
        text = results.encode_content(result.content, output.whole())
        content = _bounded(text, tool, result)
        reference, complaint = self._keep_whole(text, home) if content.is_cut else ("", ())
        outcome = results.outcome_from(
            content,
            is_error=result.is_error,
            details=result.details,
            diagnostics=(*diagnostics, *_lost_output(result, output), *complaint),
            full_output=reference,
        ).model_copy(update={"acks": result.acks if isinstance(result, Acknowledged) else ()})
        if not nested:
            return outcome.model_copy(update={"handoff": _handoff(result.handoff)})
        return outcome.model_copy(update={"structured": content.text if tool.output is None else structured})

    def _keep_whole(self, text: str, home: asyncio.AbstractEventLoop) -> tuple[str, tuple[Diagnostic, ...]]:
        try:
            storing = asyncio.run_coroutine_threadsafe(self._blobs.put(text), home)
            return storing.result(STORE_SECONDS), ()
        except Exception as error:  # a storage driver may raise anything
            text = f"The whole text could not be stored: {_problem(error)}"
            return "", (Diagnostic(severity="warn", message=text, code="not_stored"),)

    async def deliverable(self, outcome: ToolOutcome) -> ToolOutcome:
        """`outcome`; or, when the store refuses what is too large for history, its beginning and its end."""
        if len(outcome.model_dump_json().encode()) <= INLINE_BYTES // 2:
            return outcome
        try:
            async with asyncio.timeout(STORE_SECONDS):
                await self._converter.encode([outcome])
        except Exception as error:  # a storage driver may raise anything
            activity.logger.warning("A result was shortened, since the store failed", exc_info=True)
            return _shortened(outcome, error)
        return outcome


def _structured(tool: Tool, result: ToolResult) -> tuple[Any, str]:
    """What programs read of a result, as JSON data, and why it is not what the tool declares."""
    if tool.output is None or result.is_error:
        return None, ""
    value = result.content if result.structured is None else result.structured
    try:
        data = results.plain_json(tool.output.dump_python(tool.output.validate_python(value), mode="json"))
        size = len(json.dumps(data, ensure_ascii=False).encode())
    except Exception as error:  # validators are application code
        return None, f"Its structured output does not fit what it declares: {_problem(error)}"
    if size > MAX_STRUCTURED_BYTES:
        return None, f"Its structured output has {size} bytes, {MAX_STRUCTURED_BYTES} are allowed."
    return data, ""


def _bounded(text: str, tool: Tool, result: ToolResult) -> Bounded:
    if tool.result_bytes == MAX_MODEL_BYTES:
        return bound_text(text, keep=result.keep)
    return bound_text(text, max_bytes=tool.result_bytes, max_lines=len(text) + 1, keep=result.keep)


def _handoff(text: Any) -> str | None:
    if text is None:
        return None
    if not isinstance(text, str):
        raise results.Unencodable(f"its handoff is a {type(text).__name__}, not a text")
    return input_text(clean_text(text))


def _lost_output(result: ToolResult, output: Output) -> tuple[Diagnostic, ...]:
    if result.content is not None or not output.dropped_bytes:
        return ()
    return (Diagnostic(severity="warn", message=f"{output.dropped_bytes} bytes of published output were not kept."),)


def _problem(error: BaseException) -> str:
    return str(error) or type(error).__name__


def _shortened(outcome: ToolOutcome, error: Exception) -> ToolOutcome:
    half = INLINE_BYTES // 8
    data = outcome.text.encode()
    content = Bounded(outcome.text)
    if len(data) > 2 * half:
        ends = (data[:half].decode(errors="ignore"), data[-half:].decode(errors="ignore"))
        left_out = data[half:-half]
        content = Bounded("\n[…]\n".join(ends), len(left_out), left_out.count(b"\n"))
    text = f"The store could not be written, so only a part of the result is kept: {_problem(error)}"
    remark = Diagnostic(severity="warn", message=text, code="not_stored")
    short = results.outcome_from(content, is_error=outcome.is_error, diagnostics=(remark,))
    return short.model_copy(
        update={"code": outcome.code, "facts": short.facts.model_copy(update={"code": outcome.code})}
    )
