"""A worker that is a build of a deployment: what it is to Temporal, and what it tells when its build is made current.

All workflows of ours go on with the build that is current at their next step, however long they were parked: they are
written to replay under every later one (spec §22.1).
"""

from __future__ import annotations

import asyncio
import logging
from datetime import datetime, timedelta

from temporalio.client import Client
from temporalio.common import VersioningBehavior, WorkerDeploymentVersion
from temporalio.worker import WorkerDeploymentConfig

from tarry.client.deployments import Build, Routing, build_of, current_since, routing, why_idle
from tarry.client.registry import tell_made_current
from tarry.settings import Settings

PERIOD = timedelta(seconds=2)


def deployment_of(settings: Settings) -> WorkerDeploymentConfig | None:
    """What a worker with these settings says of itself, None when it is no build."""
    build = build_of(settings)
    if build is None:
        return None
    version = WorkerDeploymentVersion(build.deployment, build.name)
    return WorkerDeploymentConfig(version, True, default_versioning_behavior=VersioningBehavior.AUTO_UPGRADE)


async def follow(client: Client, task_queue: str, build: Build, fingerprint: str | None = None) -> None:
    """Look for ever whether work goes to `build`: say so, and tell the registry of its hooks each time that it does.

    A server that does not answer is asked again. Without `fingerprint`, for a process of tools alone, it only says.
    """
    seen: Routing | None = None
    while True:
        try:
            now = await routing(client, task_queue, of_tools=fingerprint is None)
            if seen is None or (now.current, now.ramping, now.changed) != (seen.current, seen.ramping, seen.changed):
                if now.current == build and fingerprint is not None:
                    await _tell(client, task_queue, build, fingerprint)
                _log(task_queue, now, build)
                seen = now
        # One that stops looking would be noticed by nobody.
        except Exception as error:
            logging.warning("could not look which build is given work: %s", error)
        await asyncio.sleep(PERIOD.total_seconds())


async def _tell(client: Client, task_queue: str, build: Build, fingerprint: str) -> None:
    since: datetime | None = await current_since(client, build)
    if since is not None:
        await tell_made_current(client, task_queue, fingerprint, since)


def _log(task_queue: str, now: Routing, build: Build) -> None:
    its = f"build {build.name} of {build.deployment}"
    if now.current == build:
        logging.info("%s is current on task queue %s", its, task_queue)
    elif now.ramping == build:
        logging.info("%s is given %g%% of task queue %s", its, now.percentage, task_queue)
    else:
        logging.warning("%s", why_idle(now, task_queue, build))
