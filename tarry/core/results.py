"""What a tool call's end becomes: content as text, and every sentence the harness itself says to a model.

Pure. Content is the tool's own, bounded; whatever the harness remarks comes after it in one `<harness>`
block, a line each, so that a model can tell the two apart. Each way to end has words of its own (spec §5.4).

A result that was cut needs its whole text stored first: `encode_content`, then `bound_text`, then, when
that `is_cut`, the store's reference goes into `outcome_from`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal

from pydantic_core import to_jsonable_python

from tarry.core.messages import Frozen
from tarry.core.protocol import CallError, OutcomeCode, ToolOutcome
from tarry.core.text import Bounded, bound_text, clean_json, clean_text
from tarry.core.transcript import ToolFacts

MAX_DETAILS_BYTES = 64 * 1024
"""Details above this are left out of the record."""
MAX_DIAGNOSTICS = 20
"""The diagnostics of one call; the first ones are kept."""
MAX_DIAGNOSTIC_BYTES = 1024
MAX_REMARK_BYTES = 4 * 1024
MAX_LIST_BYTES = 1024
MAX_NAME = 80


class Unencodable(ValueError):
    """A result that cannot be put into text. The tool ran; only its answer is gone."""


class Diagnostic(Frozen):
    """A remark on a result. Every one is shown to the model and kept in the record."""

    severity: Literal["info", "warn", "error"] = "info"
    message: str
    code: str = ""


def encode_content(content: Any, published: str = "") -> str:
    """The text of what a tool returned: a string as it is, data as JSON, nothing as what it had `published`.

    NaN and the infinities become null, lone surrogates U+FFFD (spec §4.11).

    Raises:
        Unencodable: an object JSON has no form for, a cycle, bytes that are not UTF-8.
    """
    if content is None:
        return clean_text(published)
    if isinstance(content, str):
        return clean_text(str.__str__(content))
    return _dump(plain_json(content))


def plain_json(value: Any) -> Any:
    """`value` as clean JSON data; models, dataclasses, times and the like in pydantic's JSON form.

    Raises:
        Unencodable: as `encode_content`.
    """
    try:
        return clean_json(_plain(value))
    except RecursionError:
        raise Unencodable("it contains itself, or is nested too deeply") from None
    except Exception as error:  # a serializer is application code and may raise anything
        raise Unencodable(exception_text(error)) from None


def outcome_from(
    content: Bounded,
    *,
    is_error: bool = False,
    details: Any = None,
    diagnostics: Sequence[Diagnostic] = (),
    full_output: str = "",
) -> ToolOutcome:
    """The outcome of a tool that returned. `full_output` is the reference of its whole text, when that was cut.

    Details that are no JSON data, or too large, are left out with a remark: they must not cost the result.
    """
    kept, complaint = _keep_details(details)
    remarks = [*_limit(diagnostics), *complaint, *_cut_remark(content, full_output)]
    return _outcome("", content, remarks, is_error=is_error, details=kept, full_output=full_output)


def with_remarks(outcome: ToolOutcome, remarks: Sequence[Diagnostic]) -> ToolOutcome:
    """The same outcome with more remarks, in the record and at the end of the text."""
    lines = tuple(_line(remark) for remark in _limit(remarks))
    if not lines:
        return outcome
    facts = outcome.facts.model_copy(update={"diagnostics": (*outcome.facts.diagnostics, *lines)})
    return outcome.model_copy(update={"text": _block(lines, after=outcome.text), "facts": facts})


def replaced(outcome: ToolOutcome, content: Any, *, is_error: bool, details: Any) -> ToolOutcome:
    """What a hook made of an outcome; how the call ended stays in its code.

    Raises:
        Unencodable: the content has no text.
    """
    made = outcome_from(bound_text(encode_content(content)), is_error=is_error, details=details)
    facts = made.facts.model_copy(update={"code": outcome.code, "full_output": outcome.facts.full_output})
    kept = {"code": outcome.code, "structured": outcome.structured, "handoff": outcome.handoff}
    return made.model_copy(update={**kept, "facts": facts})


def blocked(tool: str, code: Literal["blocked", "denied", "expired"], reason: str, by: str = "") -> ToolOutcome:
    """It was not allowed to run: by a rule, by a person, or since nobody answered; each has its word (spec §5.4)."""
    who = f" by {by}" if by else ""
    how = {
        "blocked": "was blocked and not run",
        "denied": f"was denied{who} and not run",
        "expired": "was not run: nobody approved it in time",
    }[code]
    return _failure(code, f"Tool {_name(tool)} {how}. {reason}".strip())


def interrupted(tool: str, output: str = "", *, cleanup: str = "") -> ToolOutcome:
    """Its worker was lost and it may not run again. `output` is what it had published."""
    text = f"Tool {_name(tool)} was interrupted and may have partially run. Find out what it did before repeating it."
    return _failure("interrupted", text, output, _cleanup(cleanup))


def aborted(
    tool: str,
    output: str = "",
    *,
    started: bool = True,
    waited: bool = False,
    cleanup: str = "",
    diagnostics: Sequence[Diagnostic] = (),
) -> ToolOutcome:
    """Somebody stopped it, or the run it belongs to. `waited`: it was parked; `cleanup`: why its hook failed."""
    how = "while it ran; what it did until then stays done" if started else "before it was started"
    how = "while it was waiting" if waited else how
    remarks = (*diagnostics, *_cleanup(cleanup))
    return _failure("aborted", f"Tool {_name(tool)} was aborted on request {how}.", output, remarks)


def too_long(tool: str, output: str = "", *, cleanup: str = "") -> ToolOutcome:
    """So much was sent to it while it ran that its history would have outgrown what the server keeps."""
    text = f"Tool {_name(tool)} was stopped: its history grew too long while it ran. What it did until then stays done."
    return _failure("too_long", text, output, _cleanup(cleanup))


def after_clean_up(outcome: ToolOutcome, problem: str) -> ToolOutcome:
    """The outcome of code that its worker stopped, once its hook was run: unchanged, unless that failed."""
    lines = tuple(_line(remark) for remark in _cleanup(problem))
    if not lines:
        return outcome
    text = "\n".join((outcome.text.removesuffix("\n</harness>"), *lines, "</harness>"))
    facts = outcome.facts.model_copy(update={"diagnostics": (*outcome.facts.diagnostics, *lines)})
    return outcome.model_copy(update={"text": text, "facts": facts})


def _cleanup(problem: str) -> tuple[Diagnostic, ...]:
    if not problem:
        return ()
    text = f"Cleanup unknown: what it started outside may still be going on. {problem}"
    return (Diagnostic(severity="warn", message=text, code="cleanup_unknown"),)


def invalid_park(tool: str, problem: str, output: str = "", diagnostics: Sequence[Diagnostic] = ()) -> ToolOutcome:
    """It asked to wait for something that could never wake it (spec §3.8, §3.9)."""
    text = f"Tool {_name(tool)} asked to wait, but cannot: {problem}"
    return _failure("invalid_park", text, output, diagnostics)


def timed_out(tool: str, seconds: float, output: str = "", diagnostics: Sequence[Diagnostic] = ()) -> ToolOutcome:
    """It ran longer than it may."""
    text = f"Tool {_name(tool)} timed out after {seconds:g} s and was stopped; its effects until then stay."
    return _failure("timeout", text, output, diagnostics)


def tool_error(
    tool: str, error: BaseException, output: str = "", diagnostics: Sequence[Diagnostic] = ()
) -> ToolOutcome:
    """It raised. Type and text of the error reach the model; the text is never empty (spec §4.5)."""
    return _failure("tool_error", f"Tool {_name(tool)} failed with {exception_text(error)}", output, diagnostics)


def invalid_structured_output(tool: str, problem: str, diagnostics: Sequence[Diagnostic] = ()) -> ToolOutcome:
    """It ran to its end, but the task that called it cannot read its result."""
    text = f"Tool {_name(tool)} ran to its end. {problem}"
    return _failure("invalid_structured_output", text, diagnostics=diagnostics)


def unencodable(tool: str, problem: str, diagnostics: Sequence[Diagnostic] = ()) -> ToolOutcome:
    """It ran to its end, but its result has no text. It is not run again for that (spec §4.5)."""
    text = f"Tool {_name(tool)} ran to its end, but its result cannot be encoded: {problem}"
    return _failure("unencodable_result", text, diagnostics=diagnostics)


def unavailable(tool: str, parked_with: Any = None, *, has_parked: bool = False) -> ToolOutcome:
    """No worker has the tool any more. One that has parked may have left work outside: its checkpoint says which."""
    text = f"Tool {_name(tool)} is not available: no worker has it."
    if not has_parked:
        return _failure("tool_unavailable", f"{text} It was not run.")
    kept = bound_text(_dump(clean_json(parked_with)), max_bytes=MAX_DIAGNOSTIC_BYTES).text
    return _failure("tool_unavailable", f"{text} It had begun and was waiting; nothing was cleaned up. It kept: {kept}")


def not_here(tool: str, published: str | None = None, worker: str | None = None) -> ToolOutcome:
    """This worker lacks the tool; another may have it (spec §1.4), or `worker` has it now. No model reads this.

    The details are what an earlier attempt had `published`, None when there was none.
    """
    content = Bounded("")
    remark = Diagnostic(severity="error", message=f"Tool {_name(tool)} is not here: this worker does not have it.")
    outcome = _outcome("not_here", content, [remark], is_error=True, details=published)
    return outcome.model_copy(update={"worker": worker})


def lost(tool: str) -> ToolOutcome:
    """The call ended without telling how: it was terminated, or failed as no call should."""
    return _failure("lost", f"The result of tool {_name(tool)} was lost. It may have run; check before repeating it.")


def refusal(error: CallError) -> ToolOutcome:
    """The outcome of a call that is answered without being run."""
    return _failure(error.code, error.text)


def missing_result_text(tool: str) -> str:
    """Stands in a request for a result the transcript does not hold."""
    text = f"There is no record of a result of tool {_name(tool)}. It may have run; check before repeating it."
    return _block([_line(Diagnostic(severity="error", message=text))])


def unknown_tool_text(tool: str, available: Iterable[str]) -> str:
    """Names the tools there are, as far as they fit into 1 KiB."""
    listed = bound_text(", ".join(available), max_bytes=MAX_LIST_BYTES)
    names = f"{listed.text.rpartition(', ')[0]} and more" if listed.is_cut else listed.text
    return f"There is no tool {json.dumps(_name(tool))}. " + (f"There are: {names}." if names else "There are none.")


def invalid_arguments_text(tool: str, problem: str, parameters: str) -> str:
    """Says what is wrong with the arguments and what the tool takes."""
    return f"Invalid arguments for tool {_name(tool)}, which was not run.\n{problem}\n{parameters}"


def cut_off_text() -> str:
    """For each call of a response that hit the output limit or a content filter."""
    return (
        "Your response was cut off by its length limit or a content filter, so none of its calls was run. "
        "Send the call again, complete; split it up if it is long."
    )


def too_many_text(limit: int) -> str:
    """For each call beyond the ones a response may make."""
    return f"Too many calls in one response: the first {limit} were taken, this one was not run. Send it again."


def _plain(value: Any) -> Any:
    if value is None or type(value) in (str, int, float, bool):
        return value
    if isinstance(value, dict):
        return {key if isinstance(key, str) else to_jsonable_python(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Iterator):
        raise TypeError(f"a {type(value).__name__} is no data; return a list")
    return to_jsonable_python(value)


def _dump(data: Any) -> str:
    try:
        return json.dumps(data, ensure_ascii=False, allow_nan=False)
    except ValueError as error:  # an integer of thousands of digits
        raise Unencodable(str(error)) from None


def _keep_details(details: Any) -> tuple[Any, list[Diagnostic]]:
    try:
        plain = plain_json(details)
        size = len(_dump(plain).encode())
    except Unencodable as error:
        return None, [Diagnostic(severity="warn", message=f"The details were left out: {error}")]
    if size > MAX_DETAILS_BYTES:
        text = f"The details were left out: {size} bytes are over the limit of {MAX_DETAILS_BYTES}."
        return None, [Diagnostic(severity="warn", message=text)]
    return plain, []


def _limit(diagnostics: Sequence[Diagnostic]) -> list[Diagnostic]:
    kept = [
        d.model_copy(update={"message": bound_text(d.message, max_bytes=MAX_DIAGNOSTIC_BYTES).text})
        for d in diagnostics[:MAX_DIAGNOSTICS]
    ]
    if len(diagnostics) > MAX_DIAGNOSTICS:
        left_out = len(diagnostics) - MAX_DIAGNOSTICS
        kept.append(Diagnostic(severity="warn", message=f"{left_out} more remarks were left out."))
    return kept


def _cut_remark(content: Bounded, full_output: str) -> list[Diagnostic]:
    if not content.is_cut:
        return []
    rest = f"the whole text is kept as {full_output}" if full_output else "the rest was not kept"
    where = "" if content.kept == "head" else " at the start"
    text = f"Truncated: {content.dropped_bytes} bytes in {content.dropped_lines} lines{where} are left out; {rest}."
    return [Diagnostic(severity="warn", message=text, code="truncated")]


def _failure(code: OutcomeCode, text: str, output: str = "", diagnostics: Sequence[Diagnostic] = ()) -> ToolOutcome:
    content = bound_text(output)
    remark = Diagnostic(severity="error", message=text)
    return _outcome(code, content, [*_limit(diagnostics), *_cut_remark(content, ""), remark], is_error=True)


def _outcome(
    code: OutcomeCode,
    content: Bounded,
    remarks: Sequence[Diagnostic],
    *,
    is_error: bool,
    details: Any = None,
    full_output: str = "",
) -> ToolOutcome:
    lines = tuple(_line(remark) for remark in remarks)
    shown = lines or (() if content.text.strip() else (_line(Diagnostic(message="There was no output.")),))
    text = content.text if not shown else _block(shown, after=content.text)
    facts = ToolFacts(code=code, details=details, diagnostics=lines, full_output=full_output)
    return ToolOutcome(text=text, is_error=is_error, code=code, facts=facts)


def _block(lines: Sequence[str], after: str = "") -> str:
    content = after if not after or after.endswith("\n") else f"{after}\n"
    return content + "\n".join(("<harness>", *lines, "</harness>"))


def _line(remark: Diagnostic) -> str:
    message = bound_text(remark.message, max_bytes=MAX_REMARK_BYTES).text.strip().replace("\n", "\n  ")
    return f"[{remark.severity}] {message}{f' ({_name(remark.code)})' if remark.code else ''}"


def _name(tool: str) -> str:
    return clean_text(tool)[:MAX_NAME]


def exception_text(error: BaseException) -> str:
    """Type and text of an error of the application, never empty."""
    try:
        text = str(error).strip()
    except Exception:  # an application's __str__ may itself be broken
        text = ""
    return f"{type(error).__name__}: {clean_text(text)}" if text else f"{type(error).__name__}, without a message"
