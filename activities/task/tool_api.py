"""The `api` of a running tool: publishing, remarks, memos, signals, and the fence around a run that was given up.

Called from the tool's thread or loop, works on the worker's loop. After the run has ended, and as soon
as it is known to be stale, every method raises `StaleRun` (spec §4.6).
"""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, TypeVar

from temporalio import activity

from activities.output import Output
from activities.reports import failed
from activities.task.asking import GIVEN_UP, call_of, check_current, is_after_reset, key_state, start_update, take_error
from activities.task.committing import Committer
from activities.task.nesting import Nesting
from activities.task.outcomes import Outcomes
from activities.task.outreach import Outreach
from activities.task.people_alone import PeopleAlone
from activities.task.tree_api import CallersTree
from signals.box import KeyState
from signals.parking import Wake
from signals.tokens import Signal
from tarry.api import Expired, Received, StaleRun, TaskFull
from tarry.app import Registry
from tarry.client import Harness
from tarry.core.agent import Agent
from tarry.core.messages import Usage
from tarry.core.protocol import (
    MEMO,
    AnnounceInput,
    MemoInput,
    ToolRunInput,
)
from tarry.core.results import Diagnostic, plain_json
from tarry.core.subagents.protocol import tree_of
from tarry.core.text import canonical_json, clean_text
from tarry.core.waiting import ParkRequest
from tarry.environment import Environment, NoEnvironment, Place
from tarry.hooks import TaskHook

T = TypeVar("T")
R = TypeVar("R")

MAX_MEMO_BYTES = 64 * 1024

Purpose = Literal["memo", "reconcile", "clean-up"]
"""What code of the tool runs: its name stands in the ids of memo requests."""


@dataclass(frozen=True)
class Host:
    """What every run on this worker shares.

    `grace` is how long code has to end once it is stopped; `models` are the names of those that can be chosen.
    """

    harness: Harness
    registry: Registry
    outcomes: Outcomes
    grace: timedelta
    models: tuple[str, ...] = ()


class RunApi(Outreach):
    """What one run of `input` may use. Make it in the activity, on the worker's loop.

    `purpose` keeps the memo requests of a hook apart from those of the run: the server answers a repeated request
    id with the first answer.
    """

    def __init__(
        self,
        host: Host,
        input: ToolRunInput,
        output: Output,
        stop: threading.Event,
        purpose: Purpose = "memo",
    ) -> None:
        info = activity.info()
        harness = host.harness
        client = harness.client
        self._harness = harness
        self._host = host
        registry = host.registry.chosen(input.agent)
        self._agent = host.registry.resolved(input.agent).without_instructions()
        self._hooks = registry.hooks
        self._make_environment = registry.environment
        self._environment: Environment | None = None
        declared = registry.tools.get(input.call.tool)
        is_safe = input.call.replay == "safe" and (declared is None or declared.replay == "safe")
        may_park = is_safe and purpose == "memo"
        self._nesting = Nesting(client, input, registry, self._at_home, may_park=may_park)
        self._committer = Committer(harness, host.registry, input)
        self._queue = harness.settings.task_queue  # a special worker runs this off a queue of its own
        self._people = PeopleAlone(host.registry)
        self._call = call_of(client, input)
        self._input = input
        self._checkpoint = input.checkpoint
        self._output = output
        self._stop = stop
        self._request = f"{purpose}-{input.run}-{info.attempt}"
        self._temporal_attempt = info.attempt
        before = input.run - input.first_run
        self._attempt = before + info.attempt + (1 if is_after_reset(input) else 0)
        self._started, self._began = info.started_time, time.monotonic()
        self._home = asyncio.get_running_loop()
        self._closed = asyncio.Event()
        self._lock = threading.Lock()
        self._memos = 0
        self._diagnostics: list[Diagnostic] = []

    @property
    def task_id(self) -> str:
        """The id of this call."""
        return self._input.task_id

    @property
    def tree(self) -> str:
        """Id of the workflow that knows the agents of the root conversation; for tools of ours (spec §17.10)."""
        return self._input.tree or tree_of(self._input.task_id)

    @property
    def agents(self) -> CallersTree:
        """The tree of agents, as this call sees it."""
        self._check_open()
        host = self._host
        return CallersTree(host.harness, host.registry, host.models, self._input, self._at_home)

    @property
    def conversation_id(self) -> str:
        """The conversation in which the call was made."""
        return self._input.conversation_id

    @property
    def idempotency_key(self) -> str:
        """Fixed with the call's arguments."""
        return self._input.idempotency_key

    @property
    def attempt(self) -> int:
        """1 on the first run, more on each rerun."""
        return self._attempt

    @property
    def wake(self) -> Wake | None:
        """Why it runs again."""
        return self._input.wake

    @property
    def park(self) -> ParkRequest | None:
        """For which the code was unwound, since it awaited a child for long."""
        return self._nesting.park

    @property
    def checkpoint(self) -> Any:
        """What it last parked with."""
        return self._checkpoint

    def stand_at(self, checkpoint: Any) -> None:
        """Let the code read this one instead: a durable task's, made current in its own thread."""
        self._checkpoint = checkpoint

    @property
    def is_cancelled(self) -> bool:
        """Whether the code is to end."""
        return self._stop.is_set()

    @property
    def agent(self) -> Agent:
        """What the conversation goes by."""
        return self._agent

    @property
    def env(self) -> Environment:
        """The environment of the conversation, made when it is first asked for."""
        self._check_open()
        with self._lock:
            if self._environment is None:
                if self._make_environment is None:
                    raise NoEnvironment("no extension of the application has an `environment`, such as coding() gives")
                self._environment = self._make_environment(Place(self._input.conversation_id, self._agent.cwd))
            return self._environment

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """The remarks made so far."""
        with self._lock:
            return tuple(self._diagnostics)

    def now(self) -> datetime:
        """The server's clock at the start of the activity, moved on by this host's steady one."""
        self._check_open()
        return self.server_now

    @property
    def server_now(self) -> datetime:
        """`now`, also after the run has ended."""
        return self._started + timedelta(seconds=time.monotonic() - self._began)

    def output(self, text: str) -> None:
        """Publish progress; a heartbeat carries it away soon after."""
        self._check_open()
        self._output.add(text)

    def usage(self, spent: Usage) -> None:
        """Report spending; a heartbeat carries it away soon after."""
        self._check_open()
        if min(spent.input_tokens, spent.output_tokens, spent.cached_tokens, spent.cost or 0) < 0:
            raise ValueError("what was spent cannot be less than nothing")
        self._output.spend(spent)

    def diagnostic(self, message: str, *, severity: Literal["info", "warn", "error"] = "info", code: str = "") -> None:
        """Add a remark to what the model reads."""
        self._check_open()
        remark = Diagnostic(severity=severity, message=message, code=clean_text(code))
        with self._lock:
            self._diagnostics.append(remark)

    async def memo(self, key: str, value: Any) -> Any:
        """Ask the own workflow to store a memo; the answer is in its history.

        Raises:
            StaleRun: this run was given up.
            TaskFull: over 64 KiB, or the call's memos would exceed their quota.
            TypeError: `value` is not JSON data.
        """
        return await asyncio.wrap_future(self._ask_memo(key, value))

    def memo_sync(self, key: str, value: Any) -> Any:
        """`memo` for a sync tool: blocks its thread."""
        return self._ask_memo(key, value).result()

    async def read_signal(self, token: Signal[T], key: str) -> Received[T] | Expired | None:
        """What a key holds, asked of the own workflow by query."""
        return _told(token, await asyncio.wrap_future(self._ask_state(token, key)))

    def read_signal_sync(self, token: Signal[T], key: str) -> Received[T] | Expired | None:
        """`read_signal` for a sync tool: blocks its thread."""
        return _told(token, self._ask_state(token, key).result())

    async def ask_hooks(self, name: str, told: Any) -> list[Any]:
        """What the hooks of this task answer."""
        answers = []
        for extension, hook in self._task_hooks(name):
            try:
                answer = hook(told, self)
                answers.append(await answer if inspect.isawaitable(answer) else answer)
            except Exception as error:  # a hook is application code and may raise anything
                self._complain(extension, name, error)
        return [answer for answer in answers if answer is not None]

    def ask_hooks_sync(self, name: str, told: Any) -> list[Any]:
        """`ask_hooks` for a sync phase."""
        answers = []
        for extension, hook in self._task_hooks(name):
            try:
                if inspect.iscoroutinefunction(hook):
                    raise TypeError("it is async, and a sync phase asks")
                answers.append(hook(told, self))
            except Exception as error:  # a hook is application code and may raise anything
                self._complain(extension, name, error)
        return [answer for answer in answers if answer is not None]

    def _task_hooks(self, name: str) -> list[tuple[str, TaskHook]]:
        self._check_open()
        wanted = (self._input.call.tool, name)
        return [(extension, hooks.of_tasks[wanted]) for extension, hooks in self._hooks if wanted in hooks.of_tasks]

    def _complain(self, extension: str, name: str, error: Exception) -> None:
        self.diagnostic(failed(f"hook {name} of {extension}", error), severity="warn")

    def close(self) -> None:
        """Raise the fence, on the worker's loop: from here on every method raises `StaleRun`."""
        self._closed.set()

    def _check_open(self) -> None:
        if self._closed.is_set():
            raise StaleRun(GIVEN_UP)

    def _ask_memo(self, key: str, value: Any) -> Future[Any]:
        self._check_open()
        memo = self._memo_input(key, value)
        with self._lock:
            self._memos += 1
            request = f"{self._request}-{self._memos}"
        return self._at_home(lambda: start_update(self._call, MEMO, memo, request))

    def _ask_state(self, token: Signal[Any], key: str) -> Future[KeyState]:
        return self._at_home(lambda: asyncio.create_task(key_state(self._call, token.key(key))))

    async def _keep_memo(self, key: str, value: Any, request: str) -> None:
        await start_update(self._call, MEMO, self._memo_input(key, value), f"{self._request}-{request}")

    async def _check_current(self) -> None:
        await check_current(self._call, AnnounceInput(run=self._input.run, attempt=self._temporal_attempt))

    def _at_home(self, start: Callable[[], asyncio.Task[R]]) -> Future[R]:
        """Start work on the worker's loop; it is given up when this run is."""
        self._check_open()
        asking = self._unless_closed(start)
        try:
            return asyncio.run_coroutine_threadsafe(asking, self._home)
        except RuntimeError:  # the worker's loop is gone under an abandoned thread
            asking.close()
            raise StaleRun(GIVEN_UP) from None

    def _memo_input(self, key: str, value: Any) -> MemoInput:
        key = clean_text(key)
        try:
            data = plain_json(value)
            size = len(key.encode()) + len(canonical_json(data).encode())
        except ValueError as error:  # Unencodable is one, and so is an integer of thousands of digits
            raise TypeError(f"memo {key!r} is not JSON data: {error}") from None
        if size > MAX_MEMO_BYTES:
            raise TaskFull(f"memo {key!r} takes {size} bytes, at most {MAX_MEMO_BYTES} are stored")
        return MemoInput(key=key, value=data, run=self._input.run, attempt=self._temporal_attempt)

    async def _unless_closed(self, start: Callable[[], asyncio.Task[R]]) -> R:
        work = start()
        work.add_done_callback(take_error)
        closed = asyncio.ensure_future(self._closed.wait())
        try:
            await asyncio.wait({work, closed}, return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                raise StaleRun(GIVEN_UP)
            return work.result()
        finally:
            closed.cancel()
            work.cancel()


def _told(token: Signal[T], state: KeyState) -> Received[T] | Expired | None:
    if state.stored is not None:
        return Received(token.read(state.stored.value, state.stored.version), state.stored.at)
    return Expired() if state.expired else None
