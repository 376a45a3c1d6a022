"""Preparing a namespace: it is there, knows our search attributes, and keeps what is closed long enough (spec §25.4).

Whoever asks again changes nothing more. What the server refuses to be told over its API, as Temporal Cloud does, is
left to a person, with the command.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from google.protobuf.duration_pb2 import Duration
from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.namespace.v1 import NamespaceConfig
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest
from temporalio.api.workflowservice.v1 import (
    DescribeNamespaceRequest,
    RegisterNamespaceRequest,
    UpdateNamespaceRequest,
)
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode
from tenacity import AsyncRetrying, retry_if_exception, retry_if_result, stop_after_delay, wait_fixed

from tarry.connect import ConnectError, commands_of, is_known_to_visibility, registered_attributes
from tarry.core.attributes import ATTRIBUTES, Attribute, AttributeType

RETENTION = timedelta(days=30)
"""For how long a namespace that is made here keeps closed workflows."""

_REFUSALS = (RPCStatusCode.PERMISSION_DENIED, RPCStatusCode.UNIMPLEMENTED)
_PATIENCE = timedelta(minutes=2)
_PAUSE = timedelta(milliseconds=500)

_INDEXED_TYPES: dict[AttributeType, IndexedValueType.ValueType] = {
    "Keyword": IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD,
    "KeywordList": IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD_LIST,
    "Datetime": IndexedValueType.INDEXED_VALUE_TYPE_DATETIME,
}


@dataclass(frozen=True)
class Left:
    """What is left to a person: why, and the commands for it."""

    why: str
    commands: tuple[str, ...]


@dataclass(frozen=True)
class Prepared:
    """A namespace as it was found, or left.

    Attributes:
        created: it was not there.
        added: the search attributes that it did not know.
        retention: for how long it keeps closed workflows; None where it is not told.
        retention_changed: that was something else.
        left: what stands between it and a worker, for a person to do. Nothing: it is ready.
    """

    namespace: str
    address: str
    created: bool = False
    added: tuple[str, ...] = ()
    retention: timedelta | None = None
    retention_changed: bool = False
    left: tuple[Left, ...] = ()

    @property
    def is_ready(self) -> bool:
        """Whether a worker may serve it."""
        return not self.left


async def prepare(client: Client, retention: timedelta | None = None, *, change: bool = True) -> Prepared:
    """Make the client's namespace ready, or with `change=False` look what is missing.

    `retention` is set where it is given, else a namespace that is there keeps its own.

    Raises:
        ConnectError: the namespace did not take up what it was told.
        RPCError: the server failed.
    """
    commands = commands_of(client)
    name, address = commands.namespace, commands.address
    found = await _retention_of(client)
    created = found is None
    if found is None:
        if not change or not await _create(client, retention or RETENTION):
            missing = Left(f"namespace {name} does not exist", (commands.create(retention or RETENTION),))
            return Prepared(name, address, left=(missing,))
        found = retention or RETENTION
    added, left = await _attributes(client, change=change)
    kept, complaint = await _keep(client, found, retention, change=change)
    return Prepared(
        name,
        address,
        created=created,
        added=added,
        retention=kept,
        retention_changed=not created and kept != found,
        left=(*left, *complaint),
    )


async def add_attributes(client: Client, attributes: Iterable[Attribute]) -> None:
    """Register them in the client's namespace.

    Raises:
        RPCError: the server refuses, or does not know the namespace yet.
    """
    wanted = {attribute.name: _INDEXED_TYPES[attribute.type] for attribute in attributes}
    await client.operator_service.add_search_attributes(
        AddSearchAttributesRequest(namespace=client.namespace, search_attributes=wanted)
    )


async def set_retention(client: Client, retention: timedelta) -> None:
    """Have closed workflows kept for so long.

    Raises:
        RPCError: the server refuses.
    """
    config = NamespaceConfig(workflow_execution_retention_ttl=_duration(retention))
    await client.workflow_service.update_namespace(UpdateNamespaceRequest(namespace=client.namespace, config=config))


async def _retention_of(client: Client) -> timedelta | None:
    """What the namespace has; None when it is not there."""
    try:
        request = DescribeNamespaceRequest(namespace=client.namespace)
        found = await client.workflow_service.describe_namespace(request)
    except RPCError as error:
        if error.status == RPCStatusCode.NOT_FOUND:
            return None
        raise
    return found.config.workflow_execution_retention_ttl.ToTimedelta()


async def _create(client: Client, retention: timedelta) -> bool:
    """Make the namespace; False where that is refused."""
    request = RegisterNamespaceRequest(
        namespace=client.namespace, workflow_execution_retention_period=_duration(retention)
    )
    try:
        await client.workflow_service.register_namespace(request)
    except RPCError as error:
        if error.status not in (*_REFUSALS, RPCStatusCode.ALREADY_EXISTS):
            raise
        return error.status == RPCStatusCode.ALREADY_EXISTS
    return True


def _is_not_known_yet(error: BaseException) -> bool:
    """Whether a part of the server has not heard of the namespace: each asks anew every few seconds."""
    cause = error.__cause__ if isinstance(error, ConnectError) else error
    return isinstance(cause, RPCError) and cause.status == RPCStatusCode.NOT_FOUND


async def _attributes(client: Client, *, change: bool) -> tuple[tuple[str, ...], tuple[Left, ...]]:
    """Those that were added, and what is left to do about others."""
    patient = AsyncRetrying(
        retry=retry_if_exception(_is_not_known_yet),
        stop=stop_after_delay(_PATIENCE),
        wait=wait_fixed(_PAUSE),
        reraise=True,
    )
    registered: dict[str, str | None] = await patient(registered_attributes, client)
    missing = [attribute for attribute in ATTRIBUTES if attribute.name not in registered]
    wrong = [one for one in ATTRIBUTES if registered.get(one.name) not in (one.type, None)]
    commands = commands_of(client)
    left = [
        Left(
            f"search attribute {one.name} is registered as {registered[one.name]}, not {one.type}",
            (commands.remove_attribute(one), commands.create_attributes([one])),
        )
        for one in wrong
    ]
    if missing and (not change or not await _add(client, missing)):
        names = ", ".join(attribute.name for attribute in missing)
        left.append(Left(f"search attributes are not registered ({names})", (commands.create_attributes(missing),)))
        missing = []
    return tuple(attribute.name for attribute in missing), tuple(left)


async def _add(client: Client, missing: Sequence[Attribute]) -> bool:
    """Register, and return when queries may name them: workers start only then. False where it is refused."""
    try:
        await add_attributes(client, missing)
    except RPCError as error:
        if error.status in _REFUSALS:
            return False
        raise
    known = AsyncRetrying(
        retry=retry_if_result(lambda is_known: not is_known),
        stop=stop_after_delay(_PATIENCE),
        wait=wait_fixed(_PAUSE),
        retry_error_callback=lambda _: False,
    )
    for attribute in missing:
        if not await known(is_known_to_visibility, client, attribute.name):
            raise ConnectError(f"search attribute {attribute.name} was registered, and is still not known: try again")
    return True


async def _keep(
    client: Client, found: timedelta, wanted: timedelta | None, *, change: bool
) -> tuple[timedelta, tuple[Left, ...]]:
    """The retention from now on, and what is left to do about it."""
    if wanted is None or wanted == found:
        return found, ()
    if change:
        try:
            await set_retention(client, wanted)
        except RPCError as error:
            if error.status not in _REFUSALS:
                raise
        else:
            return wanted, ()
    why = f"closed workflows are kept for {found.days} days, not for {wanted.days}"
    return found, (Left(why, (commands_of(client).set_retention(wanted),)),)


def _duration(span: timedelta) -> Duration:
    duration = Duration()
    duration.FromTimedelta(span)
    return duration
