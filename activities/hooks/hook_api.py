"""What a hook sees of the call that it is asked about, for one pass."""

from __future__ import annotations

import asyncio
import copy
import threading
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, Literal, TypeVar

from temporalio import activity

from activities.runner import ToolThread, undisturbed
from activities.task.documents import DeclaredDocuments, Home, TaskDocument
from signals.box import QUOTA_BYTES, Box
from signals.data import json_size
from signals.tokens import Signal, key_problem
from tarry.api import Expired, Received, TaskFull
from tarry.core.gates import PassInput, arguments_digest
from tarry.core.results import MAX_DIAGNOSTICS, Diagnostic, exception_text, plain_json
from tarry.core.text import bound_text
from tarry.documents import Document
from tarry.hooks import HookApi, HookCall

T = TypeVar("T")

MAX_PROBLEM = 1024
MAX_ARGUMENTS_BYTES = 256 * 1024
"""Of arguments that a hook gives: they are carried wherever the call goes."""
STOP_GRACE = 0.1


class Asking(HookApi):
    """One pass, as its hooks see it; all of them have `seconds` together.

    A hook gets copies: what it changes in them changes neither what runs nor what is stored. `began` is when the
    activity did, by this host's steady clock; None: now.
    """

    def __init__(
        self, input: PassInput, documents: DeclaredDocuments, seconds: float, began: float | None = None
    ) -> None:
        self.arguments: dict[str, Any] = input.call.arguments
        self._input = input
        self._documents = documents
        self._home = Home()
        self._memos: dict[str, Any] = {}
        self._remarks: list[Diagnostic] = []
        self._box = Box(keys=input.keys)
        self._started = activity.info().started_time
        self._began = time.monotonic() if began is None else began
        self._ends = time.monotonic() + seconds

    @property
    def tool(self) -> str:
        """The tool that is called."""
        return self._input.call.tool

    @property
    def left(self) -> float:
        """The seconds that are left."""
        return max(self._ends - time.monotonic(), 0)

    @property
    def memos(self) -> dict[str, Any]:
        """The new ones."""
        return copy.deepcopy(self._memos)

    @property
    def remarks(self) -> tuple[Diagnostic, ...]:
        """All that hooks remarked."""
        return tuple(self._remarks)

    @property
    def told(self) -> HookCall:
        """The call with the arguments of now."""
        call = self._input.call
        return HookCall(
            task_id=self._input.task_id,
            conversation_id=self._input.conversation_id,
            caller=self._input.caller,
            tool=call.tool,
            arguments=copy.deepcopy(self.arguments),
            digest=arguments_digest(call.tool, self.arguments),
        )

    def replace(self, arguments: Any) -> str:
        """Take other arguments; why not, when they are none."""
        try:
            plain = plain_json(arguments)
            size = json_size(plain)
        except ValueError as error:
            return f"gave arguments that are no JSON: {error}"
        if not isinstance(plain, dict):
            return "gave arguments that are no object"
        if size > MAX_ARGUMENTS_BYTES:
            return f"gave arguments of {size} bytes, {MAX_ARGUMENTS_BYTES} are allowed"
        self.arguments = plain
        return ""

    async def call(self, code: Callable[[], Any], seconds: float) -> tuple[Any, str]:
        """What a hook answers, or why it gave no answer."""
        thread = ToolThread(code, threading.Event(), "tarry-hook")
        try:
            ended = await thread.wait(seconds)
        except asyncio.CancelledError:
            await undisturbed(thread.stop(STOP_GRACE))
            raise
        if ended is None:
            await thread.stop(STOP_GRACE)
            return None, "gave no answer in time"
        if ended.error is not None:
            activity.logger.warning("A hook failed", exc_info=ended.error)
            return None, bound_text(f"failed with {exception_text(ended.error)}", max_bytes=MAX_PROBLEM).text
        return ended.value, ""

    def now(self) -> datetime:
        """The server's clock at the start of the activity, moved on by this host's steady one."""
        return self._started + timedelta(seconds=time.monotonic() - self._began)

    def fixed(self, key: str, at: datetime) -> datetime:
        """The time under `key`: `at`, unless an earlier pass fixed one."""
        return datetime.fromisoformat(self.memo_sync(key, at.isoformat()))

    def diagnostic(self, message: str, *, severity: Literal["info", "warn", "error"] = "info", code: str = "") -> None:
        """Remark on the result."""
        if len(self._remarks) < MAX_DIAGNOSTICS:
            text = bound_text(str(message), max_bytes=MAX_PROBLEM).text
            self._remarks.append(Diagnostic(severity=severity, message=text, code=code))

    async def memo(self, key: str, value: Any) -> Any:
        """Remember for the call."""
        return self.memo_sync(key, value)

    def memo_sync(self, key: str, value: Any) -> Any:
        """Remember for the call."""
        if (problem := key_problem(key)) is not None:
            raise ValueError(problem)
        known = self._input.memos if key in self._input.memos else self._memos
        if key not in known:
            plain = plain_json(value)
            # Checked here too: what the call could not carry would come back to it all the same.
            if json_size(self._input.memos) + json_size(self._memos) + json_size([key, plain]) > QUOTA_BYTES:
                raise TaskFull(f"memo {key[:100]!r} is too large for what the call holds already")
            self._memos[key] = plain
        return copy.deepcopy(known[key])

    def document(self, document: Document[T]) -> TaskDocument[T]:
        """A document of the call's conversation, or of its session."""
        return self._documents.of(self._input.conversation_id, document, self._home.start)

    async def read_signal(self, token: Signal[T], key: str) -> Received[T] | Expired | None:
        """What a key of the call holds."""
        return self.read_signal_sync(token, key)

    def read_signal_sync(self, token: Signal[T], key: str) -> Received[T] | Expired | None:
        """What a key of the call holds."""
        state = self._box.state(token.key(key))
        if state.stored is not None:
            return Received(token.read(state.stored.value, state.stored.version), state.stored.at)
        return Expired() if state.expired else None
