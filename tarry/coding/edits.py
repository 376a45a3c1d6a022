"""Replacing pieces of a text, each found exactly once in the text as it was (spec §14.6).

Pure. Line ends are matched as if all were LF; what is not replaced stays as it is, byte for byte.
"""

from __future__ import annotations

import difflib
import json
import re
from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

BOM = "\ufeff"
MAX_DIFF_LINES = 20_000
"""Of texts with more lines no difference is computed."""
MAX_DIFF_BYTES = 24 * 1024


class Edit(BaseModel):
    """A piece of text, and what comes in its place."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    old_text: str = Field(alias="oldText", description="Text that stands in the file exactly once, whitespace included")
    new_text: str = Field(alias="newText", description="What comes in its place")


class EditArguments(BaseModel):
    """What `edit` takes. Edits sent as JSON in a text, as one object, or beside the path are read so, too."""

    model_config = ConfigDict(extra="forbid")

    path: str = Field(description="The file, relative to the working directory or absolute")
    edits: list[Edit] = Field(
        min_length=1, description="The replacements; each is looked for in the file as it is now, none may overlap"
    )

    @model_validator(mode="before")
    @classmethod
    def _repair(cls, data: Any) -> Any:
        return repaired(data) if isinstance(data, dict) else data


class EditError(ValueError):
    """An edit that cannot be made; none of its call was."""


def repaired(data: dict[str, Any]) -> dict[str, Any]:
    """Arguments with their edits as a list of objects, where what was sent can mean nothing else."""
    data = dict(data)
    edits = data.get("edits")
    if isinstance(edits, str):
        try:
            edits = json.loads(edits)
        except (ValueError, RecursionError):
            return data
    if edits is None and {"oldText", "newText"} <= data.keys():
        edits = {name: data.pop(name) for name in ("oldText", "newText")}
    return {**data, "edits": [edits] if isinstance(edits, dict) else edits} if edits is not None else data


def apply_edits(text: str, edits: Sequence[Edit]) -> str:
    """The text after all edits, each found in `text` itself.

    Raises:
        EditError: an old text is empty, missing or there more than once, two overlap, or nothing would change.
    """
    plain = text.removeprefix(BOM)
    mark = text[: len(text) - len(plain)]
    flat = plain.replace("\r\n", "\n")
    crlf = [match.start() - place for place, match in enumerate(re.finditer("\r\n", plain))]
    spans = sorted(_span(flat, edit, place) for place, edit in enumerate(edits))
    for (_, end, before, _), (start, _, after, _) in pairwise(spans):
        if start < end:
            raise EditError(f"edits[{before}] and edits[{after}] overlap. Merge them into one edit.")
    done, at = [mark], 0
    newline = "\r\n" if crlf and flat.find("\n") == crlf[0] else "\n"
    for start, end, _, new in spans:
        first, last = start + bisect_left(crlf, start), end + bisect_left(crlf, end)
        done += [plain[at:first], new.replace("\n", newline)]
        at = last
    result = "".join([*done, plain[at:]])
    if result == text:
        raise EditError("The edits change nothing: the new text is the same as the old one.")
    return result


def _span(flat: str, edit: Edit, place: int) -> tuple[int, int, int, str]:
    old, new = (text.replace("\r\n", "\n") for text in (edit.old_text, edit.new_text))
    if not old:
        raise EditError(f"edits[{place}].oldText is empty. Name the text to replace, or use write for a new file.")
    start = flat.find(old)
    if start < 0:
        raise EditError(f"edits[{place}].oldText is not in the file. It must match exactly, whitespace included.")
    if flat.find(old, start + 1) >= 0:
        raise EditError(f"edits[{place}].oldText is in the file more than once. Add lines around it to make it unique.")
    return start, start + len(old), place, new


def difference(path: str, before: str, after: str) -> dict[str, Any]:
    """What changed, for people: `diff`, a unified `patch`, and the first line that changed, counted from 1."""
    old, new = (re.findall(r"[^\n]*\n|[^\n]+", text) for text in (before, after))
    same = next((i for i, (one, other) in enumerate(zip(old, new, strict=False)) if one != other), None)
    first = (min(len(old), len(new)) if same is None else same) + 1
    if max(len(old), len(new)) > MAX_DIFF_LINES:
        return {"diff": "", "patch": "", "first_changed_line": first}
    patch = "".join(_ended(line) for line in difflib.unified_diff(old, new, f"a/{path}", f"b/{path}"))
    body = patch.split("\n", 2)[2] if patch else ""
    return {"diff": _cut(body), "patch": _cut(patch), "first_changed_line": first}


def _ended(line: str) -> str:
    return line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"


def _cut(text: str) -> str:
    data = text.encode("utf-8", "replace")
    if len(data) <= MAX_DIFF_BYTES:
        return text
    return data[:MAX_DIFF_BYTES].decode("utf-8", "ignore").rpartition("\n")[0] + "\n[…]\n"
