"""Workers that run tools alone: of a process that serves names of workers, one for each (spec §25.1)."""

from __future__ import annotations

import logging
from datetime import timedelta

from temporalio.client import Client
from temporalio.worker import Worker

from activities.task.tasks import TaskActivities
from activities.task.tools import ToolActivities
from tarry.app import App
from tarry.core.routing import ALL, DEFAULT, queue_of
from tarry.settings import Settings
from tarry.store import BlobStore
from workers.deployed import deployment_of
from workers.first_work import FirstRunTold


def served(app: App, settings: Settings) -> tuple[str, ...]:
    """The names that this process serves, `default` first. One that no code has is served too, and complained of.

    Calls that were begun before a deploy may wait for such a one: it tells them where their tool is now (spec §25.2).
    """
    named, known = settings.workers, app.registry.workers
    for name in {*named} - {DEFAULT, ALL, *known}:
        logging.warning("no tool or task of the application has worker=%r; it names: %s", name, ", ".join(known) or "-")
    wanted = {DEFAULT, *named, *known} if ALL in named else {*named}
    return tuple(sorted(wanted - {ALL}, key=lambda name: (name != DEFAULT, name)))


def tool_activities(client: Client, app: App, settings: Settings) -> tuple[ToolActivities, TaskActivities]:
    """What runs the code of tools and of durable tasks."""
    models = tuple(app.known_models)
    tools = ToolActivities(app.registry, client, BlobStore(client.data_converter), settings, models=models)
    return tools, TaskActivities(app.registry.tasks, tools)


def build_special(client: Client, app: App, settings: Settings, name: str) -> Worker:
    """The worker `name`, not yet running: the code of the tools and tasks that name it, and nothing else."""
    tools, tasks = tool_activities(client, app, settings)
    return Worker(
        client,
        task_queue=queue_of(settings.task_queue, name),
        activities=[tools.run, tools.reconcile, tools.clean_up, tasks.run, tasks.clean_up],
        interceptors=[FirstRunTold()],
        max_concurrent_activities=settings.max_concurrent_activities,
        max_heartbeat_throttle_interval=timedelta(seconds=settings.progress_interval),
        default_heartbeat_throttle_interval=timedelta(seconds=settings.progress_interval),
        graceful_shutdown_timeout=timedelta(seconds=settings.shutdown_grace),
        deployment_config=deployment_of(settings),
    )
