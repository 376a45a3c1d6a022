"""A worker process: `python -m workers.worker --app module:attribute [--serves NAMES]`.

Serves workflows and activities of one application, or only the tools that name it (`workers.special`), until
SIGTERM or SIGINT; then it takes no new work, lets running work finish for the grace time and gives back the rest
(spec §4.4). A second signal ends it at once, as a crash would.
"""

from __future__ import annotations

import argparse
import asyncio
import atexit
import contextlib
import logging
import os
import signal
import sys
from collections.abc import Coroutine, Iterator, Sequence
from datetime import timedelta
from typing import Any, NoReturn

from temporalio.client import Client
from temporalio.worker import UnsandboxedWorkflowRunner, Worker
from tenacity import AsyncRetrying, before_sleep_log, wait_exponential

from activities.adopt import AdoptActivities
from activities.agents.lost import LostAgents
from activities.agents.orders import AgentActivities
from activities.conversation.keeping import KeepingActivities
from activities.conversation.sending import SendActivities
from activities.expectation import ExpectationActivities
from activities.hooks.gates import GateActivities
from activities.hooks.run_hooks import RunHookActivities
from activities.registry import RegistryActivities
from activities.run.compaction import CompactionActivities
from activities.run.model import ModelActivities
from activities.task.waiting import WaitingActivities
from tarry import serving
from tarry.app import App
from tarry.client import Harness
from tarry.client.deployments import build_of
from tarry.client.registry import announce
from tarry.connect import ConnectError, check_search_attributes, connect
from tarry.core.routing import DEFAULT, queue_of
from tarry.entries import EntryCache, EntryReader
from tarry.loading import LoadError
from tarry.seeing.content import Content
from tarry.seeing.exporting import process_meter
from tarry.seeing.metrics import begin_series
from tarry.seeing.tracing import begin_tracing
from tarry.settings import PREFIX, Settings, SettingsError
from tarry.store import BlobStore, StoreError
from workers.beginning import begin
from workers.deployed import deployment_of, follow
from workers.first_work import FirstWorkTold
from workers.lost_sight import look_every
from workers.special import build_special, served, tool_activities
from workflows.agents.tree import Agents
from workflows.conversation.conversation import Conversation
from workflows.expectation import Expectation
from workflows.registry import Registry
from workflows.run.generation import Generation
from workflows.task.task import Task
from workflows.task.tool_call import ToolCall

WORKFLOWS = [Agents, Conversation, Expectation, Generation, Registry, ToolCall, Task]

STICKY_TIMEOUT = timedelta(seconds=1)
"""After a worker is killed, its cached workflows move to another one in this time, not in ten seconds."""

STORE_PATIENCE = timedelta(minutes=2)
"""How long an activity that needs a blob waits for a store that is out of reach."""


def build_worker(client: Client, app: App, settings: Settings) -> Worker:
    """The default worker for `app`, not yet running: of workflows, and of all code that names no worker."""
    blobs = BlobStore(client.data_converter)
    reader = EntryReader(client, blobs, EntryCache(settings.entry_cache_bytes), patience=STORE_PATIENCE)
    grace = timedelta(seconds=settings.shutdown_grace)
    content = Content(settings.trace_content, app.redact)
    models = ModelActivities(app, reader, Harness(client, settings), content)
    tools, tasks = tool_activities(client, app, settings)
    gates = GateActivities(app.registry, client)
    waiting = WaitingActivities(app.registry, client)
    keeping = KeepingActivities(client, blobs, reader)
    adopting = AdoptActivities(client)
    expecting = ExpectationActivities(client, app.registry)
    serving.serve(settings.task_queue, app.registry.signals)
    return Worker(
        client,
        task_queue=settings.task_queue,
        workflows=WORKFLOWS,
        activities=[
            models.request,
            CompactionActivities(app, reader, content).compact,
            tools.run,
            tools.reconcile,
            tools.clean_up,
            tasks.run,
            tasks.clean_up,
            gates.ask,
            gates.tell,
            RunHookActivities(app.registry).ask,
            waiting.judge,
            waiting.referee,
            keeping.seal,
            keeping.fold,
            keeping.archive,
            keeping.find_submission,
            keeping.salvage,
            keeping.terminate,
            adopting.adopt,
            adopting.leave_behind,
            SendActivities(client).send,
            expecting.forward,
            RegistryActivities(client).sweep,
            AgentActivities(client, settings, blobs, reader).carry_out,
            LostAgents(client).look_after,
        ],
        # In the sandbox each payload costs an `exec`, together a fifth of a worker's CPU. What keeps our workflows from
        # clock, chance and IO is the linter, and a test that replays kept histories in the sandbox.
        workflow_runner=FirstWorkTold(UnsandboxedWorkflowRunner()),
        max_cached_workflows=settings.max_cached_workflows,
        max_concurrent_activities=settings.max_concurrent_activities,
        sticky_queue_schedule_to_start_timeout=STICKY_TIMEOUT,
        max_heartbeat_throttle_interval=timedelta(seconds=settings.progress_interval),
        default_heartbeat_throttle_interval=timedelta(seconds=settings.progress_interval),
        graceful_shutdown_timeout=grace,
        deployment_config=deployment_of(settings),
    )


async def serve(app: App, settings: Settings) -> None:
    """Run a worker until the process is told to stop."""
    client = await connect(settings, wait=timedelta(seconds=10))
    await check_search_attributes(client)
    names = served(app, settings)
    queue = settings.task_queue
    declared = [(tool.name, tool.replay, queue_of(queue, tool.worker)) for tool in app.registry.tools.values()]
    begin_series(process_meter(), client.namespace, queue, declared)
    stop = asyncio.Event()
    _on_signals(stop)
    async with contextlib.AsyncExitStack() as stack:
        workers = [_built(client, app, settings, name) for name in names]
        for worker in workers:
            await stack.enter_async_context(worker)
        print("ready", flush=True)
        asides = [asyncio.create_task(aside) for aside in _beside(client, app, settings, names)]
        await stop.wait()
        for aside in asides:
            aside.cancel()
        logging.info("stopping: running work has %g s to finish", settings.shutdown_grace)
        await asyncio.gather(*(worker.shutdown() for worker in workers))  # or the times of grace would add up


def _built(client: Client, app: App, settings: Settings, name: str) -> Worker:
    return build_worker(client, app, settings) if name == DEFAULT else build_special(client, app, settings, name)


def _beside(client: Client, app: App, settings: Settings, names: Sequence[str]) -> Iterator[Coroutine[Any, Any, None]]:
    """What a process does besides its workers."""
    build = build_of(settings)
    if DEFAULT not in names:
        if build is not None:
            yield follow(client, queue_of(settings.task_queue, names[0]), build)
        return
    # The hooks of a build count when it is made current, not because one of its workers is up.
    hooks = follow(client, settings.task_queue, build, app.registry.fingerprint) if build else None
    yield hooks or announce_hooks(client, app, settings)
    yield look_every(client, settings.task_queue)


async def announce_hooks(client: Client, app: App, settings: Settings) -> None:
    """Tell once which hooks this worker has, however long the server is away (spec §5.3)."""
    complain = before_sleep_log(logging.getLogger(__name__), logging.WARNING)
    patient = AsyncRetrying(wait=wait_exponential(max=30), before_sleep=complain)
    await patient(announce, client, settings.task_queue, app.registry.fingerprint)


def _on_signals(stop: asyncio.Event) -> None:
    def told() -> None:
        if stop.is_set():
            os._exit(1)
        stop.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told)


def main() -> None:
    """The process. Exit code 2: something must be put right first, and one line says what."""
    parser = argparse.ArgumentParser(prog="python -m workers.worker", description="Serve an application's agents.")
    parser.add_argument("--app", help="module:attribute; TARRY_APP by default")
    parser.add_argument("--serves", help="which workers it is: default, all, or names; TARRY_SERVES by default")
    arguments = parser.parse_args()
    if arguments.serves:
        os.environ[f"{PREFIX}SERVES"] = arguments.serves
    try:
        settings, _, app = begin("worker", arguments.app)
        atexit.register(begin_tracing(os.environ, "worker"))
        asyncio.run(serve(app, settings))
    except (LoadError, SettingsError, StoreError, ConnectError) as error:
        print(f"worker: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    _leave()


def _leave() -> NoReturn:
    """End the process, without the interpreter's own end.

    Threads of the SDK and of abandoned tools are still there and call into Python: an interpreter that takes itself
    down meanwhile aborts, and a clean stop would look like a crash.
    """
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
