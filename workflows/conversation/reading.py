"""Reading what a plain signal brings to a conversation: what cannot be read is refused, and remembered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from temporalio import workflow
from temporalio.common import RawValue

from tarry.core.conversation import ConversationState

T = TypeVar("T")


def readable(state: ConversationState, name: str, args: Sequence[RawValue], as_type: type[T]) -> T | None:
    """The one input of a signal; None: it was refused."""
    if len(args) != 1:
        wanted = "text" if as_type is str else "object"
        state.refuse(f"{name}: one JSON {wanted} expected, {len(args)} inputs came")
        return None
    try:
        input = workflow.payload_converter().from_payload(args[0].payload, as_type)
        if isinstance(input, as_type):
            return input
        state.refuse(f"{name}: not readable: JSON expected")
        return None
    # Anything at all may come from outside, and an exception here would wedge the workflow.
    except Exception as error:
        state.refuse(f"{name}: not readable: {error}")
        return None
