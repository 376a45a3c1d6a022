"""Telling a task queue which hooks there are, and which count; needs no worker (spec §5.3)."""

from __future__ import annotations

from datetime import datetime

from temporalio.client import Client

from tarry.client.errors import reaching_server
from tarry.core.registry import ANNOUNCE, MADE_CURRENT, PUBLISH, REGISTRY, MadeCurrent, RegistryInput, registry_id


@reaching_server()
async def publish(client: Client, task_queue: str, fingerprint: str) -> None:
    """Let the hooks with this fingerprint count, durably when it returns; a repeat changes nothing.

    Raises:
        ServerUnavailable: no server answers.
    """
    await _tell(client, task_queue, PUBLISH, fingerprint)


@reaching_server()
async def announce(client: Client, task_queue: str, fingerprint: str) -> None:
    """Tell that a worker is up; its hooks count when they are new and none were ever published.

    Raises:
        ServerUnavailable: no server answers.
    """
    await _tell(client, task_queue, ANNOUNCE, fingerprint)


@reaching_server()
async def tell_made_current(client: Client, task_queue: str, fingerprint: str, since: datetime) -> None:
    """Tell that the work of the queue goes to a build with these hooks, since then by the server's clock.

    They count, unless others were published or made current later; a repeat changes nothing.

    Raises:
        ServerUnavailable: no server answers.
    """
    await _tell(client, task_queue, MADE_CURRENT, MadeCurrent(fingerprint=fingerprint, since=since))


async def _tell(client: Client, task_queue: str, name: str, what: str | MadeCurrent) -> None:
    await client.start_workflow(
        REGISTRY,
        RegistryInput(),
        id=registry_id(task_queue),
        task_queue=task_queue,
        start_signal=name,
        start_signal_args=[what],
        static_summary="which hooks count",
    )
