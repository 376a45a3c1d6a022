"""Builds of workers side by side: which is given the work of a task queue, and what each has in hand (spec §22).

All of it is read from the server; no worker is asked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from google.protobuf.timestamp_pb2 import Timestamp
from temporalio.api.deployment.v1 import WorkerDeploymentInfo, WorkerDeploymentVersion
from temporalio.api.enums.v1 import (
    RoutingConfigUpdateState,
    TaskQueueType,
    WorkerDeploymentVersionStatus,
    WorkerVersioningMode,
)
from temporalio.api.taskqueue.v1 import PollerInfo, TaskQueue
from temporalio.api.workflowservice.v1 import (
    DescribeTaskQueueRequest,
    DescribeTaskQueueResponse,
    DescribeWorkerDeploymentRequest,
    SetWorkerDeploymentCurrentVersionRequest,
    SetWorkerDeploymentRampingVersionRequest,
)
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode
from tenacity import AsyncRetrying, RetryError, retry_if_exception, retry_if_result, stop_after_delay, wait_fixed

from tarry.attributes import STATE
from tarry.client.errors import DeployRefused, ServerUnavailable, reaching_server
from tarry.client.lists import QueueLists, literal
from tarry.settings import Settings

_POLLED_LATELY = timedelta(seconds=70)
"""A worker asks for work once a minute at least."""
_WORKFLOWS, _ACTIVITIES = TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW, TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY
_KNOWN_PATIENCE = timedelta(seconds=5)
_TELLING_PATIENCE = timedelta(seconds=30)
_PAUSE = timedelta(milliseconds=200)
_REFUSALS = (RPCStatusCode.NOT_FOUND, RPCStatusCode.FAILED_PRECONDITION)
_MISSING = "missing active task queues"
_MISSING_HINT = (
    " (each worker's name has a queue of its own: start workers of that name in this build too, "
    "or give --ignore-missing-task-queues, which leaves what comes there to workers that are no build)"
)
_STATUSES = {
    WorkerDeploymentVersionStatus.WORKER_DEPLOYMENT_VERSION_STATUS_CURRENT: "current",
    WorkerDeploymentVersionStatus.WORKER_DEPLOYMENT_VERSION_STATUS_RAMPING: "ramping",
    WorkerDeploymentVersionStatus.WORKER_DEPLOYMENT_VERSION_STATUS_DRAINING: "replaced",
    WorkerDeploymentVersionStatus.WORKER_DEPLOYMENT_VERSION_STATUS_DRAINED: "replaced",
}
_PARKED = f"{STATE.name} IN ('gated', 'sleeping', 'waiting', 'held')"


@dataclass(frozen=True)
class Build:
    """One state of the code, of a deployment."""

    deployment: str
    name: str

    def __str__(self) -> str:
        """As Temporal's lists have it."""
        return f"{self.deployment}:{self.name}"


def build_of(settings: Settings) -> Build | None:
    """The build that workers with these settings are of, None when they are of none."""
    if settings.deployment is None or settings.build is None:
        return None
    return Build(settings.deployment, settings.build)


@dataclass(frozen=True)
class Routing:
    """Which workers a task queue's work goes to.

    Attributes:
        current: the build that has it; None: workers that are no build.
        ramping: the build that a part of it goes to already.
        percentage: how large that part is, 0 to 100, by workflow id.
        changed: the server's time of the newest change; None: there never was one.
        asked: the builds whose workers asked for work within the last minutes; None stands for those that are no build.
        workers: how many of each do so now. One that was killed is counted for some 70 seconds more.
    """

    current: Build | None
    ramping: Build | None
    percentage: float
    changed: datetime | None
    asked: Sequence[Build | None]
    workers: Mapping[Build | None, int]

    @property
    def is_served(self) -> bool:
        """Whether somebody asked who is given work."""
        return self.current in self.asked or (self.ramping is not None and self.ramping in self.asked)

    @property
    def idle(self) -> Build | None:
        """A build whose workers ask, when nobody does who is given work; else None."""
        return None if self.is_served else next((build for build in self.asked if build), None)


def why_idle(now: Routing, task_queue: str, build: Build) -> str:
    """One line that says why workers of `build`, which is not current, are given nothing, and the command for it."""
    current = f"build {now.current.name} of {now.current.deployment} has it" if now.current else "no build is current"
    how = f"temporal worker deployment set-current-version --deployment-name {build.deployment} --build-id {build.name}"
    return (
        f"workers of build {build.name} of {build.deployment} are given no work of task queue {task_queue}, "
        f"{current}: make theirs current by `tarry deploy current {build.name}`, or `{how}`"
    )


@dataclass(frozen=True)
class BuildStatus:
    """A build, and the work that is not over and whose newest step one of its workers took.

    Attributes:
        build: which one.
        status: `current`, `ramping`, `inactive` (never given work), or `replaced`.
        workers: how many ask for work (`Routing.workers`).
        open: workflows of ours that are not over; an idle conversation is one.
        parked: those of them that wait, at a gate, in a tool, or held.
        pinned: those of them that somebody has pinned by hand: they alone wait for this build.
    """

    build: Build
    status: str
    workers: int
    open: int
    parked: int
    pinned: int


@dataclass(frozen=True)
class DeployStatus:
    """How a deployment stands on a task queue.

    Attributes:
        routing: who is given work.
        builds: all that the server knows of, the newest first.
        failing: workflows of the queue whose steps fail again and again, as after a change without its guard.
    """

    routing: Routing
    builds: Sequence[BuildStatus]
    failing: int


@reaching_server()
async def routing(client: Client, task_queue: str, *, of_tools: bool = False) -> Routing:
    """Which workers the queue's work goes to. A build that has just begun to ask may be missing for a second.

    `of_tools`: it is the queue of a worker of a name, which has no workflows.

    Raises:
        ServerUnavailable: no server answers.
    """
    request = DescribeTaskQueueRequest(
        namespace=client.namespace,
        task_queue=TaskQueue(name=task_queue),
        task_queue_type=_ACTIVITIES if of_tools else _WORKFLOWS,
    )
    found = await client.workflow_service.describe_task_queue(request, retry=True)
    info = found.versioning_info
    return Routing(
        current=_build(info.current_deployment_version),
        ramping=_build(info.ramping_deployment_version),
        percentage=info.ramping_version_percentage,
        changed=_moment(info.update_time),
        asked=sorted({_build_of(poller) for poller in found.pollers}, key=str),
        workers=_counted(found.pollers),
    )


@reaching_server()
async def current_since(client: Client, build: Build) -> datetime | None:
    """When a build was made current, by the server's clock; None: it is not.

    Raises:
        ServerUnavailable: no server answers.
    """
    found = await _described(client, build.deployment)
    if found is None or _build(found.routing_config.current_deployment_version) != build:
        return None
    return _moment(found.routing_config.current_version_changed_time)


@reaching_server()
async def make_current(client: Client, build: Build, *, ignore_missing: bool = False) -> None:
    """Let all work go to a build, from the next step of each workflow on. Ends a ramp to it; a repeat changes nothing.

    A build whose first worker has only just started is waited for, some seconds. Returns when the server has told all
    its task queues: until then they may give a step to the build before.

    `ignore_missing`: also when its workers leave out a task queue that is in use. What comes there goes to workers that
    are no build from then on.

    Raises:
        DeployRefused: the server knows no such build, or none of its workers asks for the work of the deployment; or
            they leave out a task queue in use, as that of a worker's name that the build gave up.
        ServerUnavailable: no server answers; or it was half a minute over telling its task queues, and will go on.
    """
    request = SetWorkerDeploymentCurrentVersionRequest(
        namespace=client.namespace,
        deployment_name=build.deployment,
        build_id=build.name,
        identity=client.identity,
        ignore_missing_task_queues=ignore_missing,
    )
    await _change(lambda: client.workflow_service.set_worker_deployment_current_version(request))
    await _told(client, build.deployment)


@reaching_server()
async def ramp(client: Client, build: Build, percentage: float, *, ignore_missing: bool = False) -> None:
    """Let a part of the work go to a build, chosen by workflow id; 0 percent gives it none. Else as `make_current`.

    Raises:
        DeployRefused: as `make_current`; or the build is the current one; or its ramp is to end, and another ramps.
        ServerUnavailable: as `make_current`.
    """
    if not percentage:
        await _check_no_other_ramps(client, build)
    request = SetWorkerDeploymentRampingVersionRequest(
        namespace=client.namespace,
        deployment_name=build.deployment,
        build_id=build.name if percentage else "",
        percentage=percentage,
        identity=client.identity,
        ignore_missing_task_queues=ignore_missing,
    )
    await _change(lambda: client.workflow_service.set_worker_deployment_ramping_version(request))
    await _told(client, build.deployment)


@reaching_server()
async def deploy_status(client: Client, task_queue: str, deployment: str) -> DeployStatus:
    """How the builds of a deployment stand on a queue. One that no worker was ever of has none.

    Raises:
        ServerUnavailable: no server answers.
    """
    found = await _described(client, deployment)
    now = await routing(client, task_queue)
    lists = QueueLists(client, task_queue)
    summaries = sorted(found.version_summaries if found else (), key=_made, reverse=True)
    return DeployStatus(
        routing=now,
        builds=[await _status(summary, now, lists) for summary in summaries],
        failing=await lists.count_open("TemporalReportedProblems IS NOT NULL"),
    )


async def _status(
    summary: WorkerDeploymentInfo.WorkerDeploymentVersionSummary, now: Routing, lists: QueueLists
) -> BuildStatus:
    build = _build(summary.deployment_version)
    assert build is not None
    its = f"TemporalWorkerDeploymentVersion = {literal(str(build))}"
    return BuildStatus(
        build=build,
        status=_STATUSES.get(summary.status, "inactive"),
        workers=now.workers.get(build, 0),
        open=await lists.count_open(its),
        parked=await lists.count_open(f"{its} AND {_PARKED}"),
        pinned=await lists.count_open(f"{its} AND TemporalWorkflowVersioningBehavior = 'Pinned'"),
    )


async def _described(client: Client, deployment: str) -> WorkerDeploymentInfo | None:
    request = DescribeWorkerDeploymentRequest(namespace=client.namespace, deployment_name=deployment)
    try:
        found = await client.workflow_service.describe_worker_deployment(request, retry=True)
    except RPCError as error:
        if error.status == RPCStatusCode.NOT_FOUND:
            return None
        raise
    return found.worker_deployment_info


async def _check_no_other_ramps(client: Client, build: Build) -> None:
    """The server ends whatever ramp there is.

    Raises:
        DeployRefused: it is not that of `build`.
    """
    found = await _described(client, build.deployment)
    other = _build(found.routing_config.ramping_deployment_version) if found else None
    if other not in (None, build):
        assert other is not None
        raise DeployRefused(
            f"build {build.name} of {build.deployment} does not ramp, build {other.name} does: "
            f"`tarry deploy ramp {other.name} 0` ends that"
        )


async def _change(ask: Callable[[], Awaitable[object]]) -> None:
    # A lambda that returns a coroutine would be taken for a plain function, its coroutine for the answer.
    async def asked() -> object:
        return await ask()

    attempts = AsyncRetrying(
        retry=retry_if_exception(_is_refusal),
        stop=stop_after_delay(_KNOWN_PATIENCE),
        wait=wait_fixed(_PAUSE),
        reraise=True,
    )
    try:
        await attempts(asked)
    except RPCError as error:
        if not _is_refusal(error):
            raise
        text = " ".join(error.message.split())
        raise DeployRefused(text + _MISSING_HINT if _MISSING in text else text) from error


async def _told(client: Client, deployment: str) -> None:
    """Return when all task queues know of the newest change. A server that does not say so is believed to have told."""
    attempts = AsyncRetrying(
        retry=retry_if_result(_is_telling),
        stop=stop_after_delay(_TELLING_PATIENCE),
        wait=wait_fixed(_PAUSE),
    )
    try:
        await attempts(_described, client, deployment)
    except RetryError as error:
        raise ServerUnavailable(
            f"the routing of {deployment} is changed, and the server is still telling its task queues: "
            "`tarry deploy status` shows whose turn it is"
        ) from error


def _is_telling(found: WorkerDeploymentInfo | None) -> bool:
    state = RoutingConfigUpdateState.ROUTING_CONFIG_UPDATE_STATE_IN_PROGRESS
    return found is not None and found.routing_config_update_state == state


def _is_refusal(error: BaseException) -> bool:
    return isinstance(error, RPCError) and error.status in _REFUSALS


def _build(version: WorkerDeploymentVersion) -> Build | None:
    return Build(version.deployment_name, version.build_id) if version.build_id else None


def _moment(at: Timestamp) -> datetime | None:
    return at.ToDatetime(UTC) if at.seconds > 0 else None


def _made(summary: WorkerDeploymentInfo.WorkerDeploymentVersionSummary) -> datetime:
    return summary.create_time.ToDatetime(UTC)


def given_work(found: DescribeTaskQueueResponse) -> Sequence[PollerInfo]:
    """Those who ask for a queue's work and are given some: of the current or ramping build, or none where none is."""
    info = found.versioning_info
    given = {_build(info.current_deployment_version)}
    if info.ramping_version_percentage:
        given.add(_build(info.ramping_deployment_version))
    return [poller for poller in found.pollers if _build_of(poller) in given]


def _counted(pollers: Sequence[PollerInfo]) -> Mapping[Build | None, int]:
    """Each worker once, though it asks on several roads."""
    lately = datetime.now(UTC) - _POLLED_LATELY
    asking = {(poller.identity, _build_of(poller)) for poller in pollers if _last_asked(poller) > lately}
    return Counter(build for _, build in asking)


def _last_asked(poller: PollerInfo) -> datetime:
    return poller.last_access_time.ToDatetime(UTC)


def _build_of(poller: PollerInfo) -> Build | None:
    options = poller.deployment_options
    if options.worker_versioning_mode != WorkerVersioningMode.WORKER_VERSIONING_MODE_VERSIONED:
        return None
    return Build(options.deployment_name, options.build_id)
