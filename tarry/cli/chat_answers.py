"""A question of an agent, and a line typed in answer. Pure."""

from __future__ import annotations

import json
from typing import Any

from rich.text import Text

from tarry.cli import render
from tarry.core.live import Question
from tarry.gates.approvals import DECISION

_YES = frozenset({"y", "yes"})
_NO = frozenset({"n", "no"})


class NoValue(ValueError):
    """The line is no answer. One line that says what would be."""


def is_approval(question: Question) -> bool:
    """Whether it asks to allow a call."""
    return any(key.partition("/")[0] == DECISION.name for key in question.keys)


def value_of(question: Question, line: str, by: str) -> Any:
    """The value to deliver: `y` or `n`, to an approval with a reason behind it; anything else as JSON.

    Raises:
        NoValue: it is neither.
    """
    word, _, rest = line.strip().partition(" ")
    if is_approval(question) and word.lower() in _YES | _NO:
        return {"allow": word.lower() in _YES, "by": by, "reason": rest.strip()}
    if not rest and word.lower() in _YES | _NO:
        return word.lower() in _YES
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        text = json.dumps(line.strip(), ensure_ascii=False)
        wanted = "y or n, with a reason if you like" if is_approval(question) else f"y, n or JSON, such as {text}"
        raise NoValue(f"answer with {wanted}; /later puts the question aside, /say sends the agent a text") from None


def asked(question: Question) -> list[Text]:
    """The question, who asks and whom, and what may be answered."""
    who = f"{question.tool or 'a task'} asks{f' {question.for_whom}' if question.for_whom else ''}"
    depth = sum(1 for step in question.path[1:] if "/" in step and "/t" in step)
    below = f", {depth} levels down" if depth > 1 else ""
    below = f", in {render.plain(question.agent)}" if question.agent else below
    how = "y/n" if is_approval(question) else "y, n or JSON"
    lines = render.plain(question.question).splitlines() or [""]
    return [
        Text.assemble(
            ("? ", "bold yellow"), (f"{render.plain(who)}{below}", "yellow"), (f"  {question.task_id}", "dim")
        ),
        *(Text(f"  {line}", "bold") for line in lines),
        Text(f"  [{how}; /later]", "dim"),
    ]
