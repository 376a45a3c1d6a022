"""`tarry namespace`: a namespace is made ready once, and what we may not do is left with its command (spec §25.4)."""

from __future__ import annotations

import shlex
import uuid
from datetime import timedelta
from pathlib import Path

import pytest
from google.protobuf.duration_pb2 import Duration
from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest
from temporalio.api.workflowservice.v1 import RegisterNamespaceRequest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from tarry.connect import check_search_attributes
from tarry.core.attributes import ATTRIBUTES
from tarry.embedded import EmbeddedServer
from tarry.namespace_commands import NamespaceCommands
from tarry.namespaces import RETENTION, Prepared, prepare
from tarry.processes import environment_of
from tests.support.command import Command
from tests.support.programs import ROOT

OURS = tuple(attribute.name for attribute in ATTRIBUTES)


async def client_of(server: EmbeddedServer) -> Client:
    """A client of a namespace that is not there."""
    return await Client.connect(server.address, namespace=f"tenant-{uuid.uuid4().hex[:8]}")


async def register(client: Client, days: int) -> None:
    period = Duration(seconds=days * 86_400)
    await client.workflow_service.register_namespace(
        RegisterNamespaceRequest(namespace=client.namespace, workflow_execution_retention_period=period)
    )


async def test_missing_namespace_is_made_ready_and_the_next_time_nothing_changes(server: EmbeddedServer) -> None:
    client = await client_of(server)
    place = (client.namespace, server.address)

    first, again = await prepare(client), await prepare(client)
    await check_search_attributes(client)

    assert first == Prepared(*place, created=True, added=OURS, retention=RETENTION)
    assert again == Prepared(*place, retention=RETENTION)


async def test_looking_changes_nothing_and_says_what_is_missing(server: EmbeddedServer) -> None:
    client = await client_of(server)
    nothing = await prepare(client, change=False)
    await register(client, days=1)
    bare = await prepare(client, timedelta(days=7), change=False)

    assert [one.why for one in nothing.left] == [f"namespace {client.namespace} does not exist"]
    assert (bare.created, bare.added, bare.retention) == (False, (), timedelta(days=1))
    assert [one.why for one in bare.left] == [
        f"search attributes are not registered ({', '.join(OURS)})",
        "closed workflows are kept for 1 days, not for 7",
    ]


async def test_namespace_that_is_there_keeps_its_retention_unless_another_is_given(server: EmbeddedServer) -> None:
    client = await client_of(server)
    await register(client, days=2)

    kept = await prepare(client)
    changed = await prepare(client, timedelta(days=7))

    assert (kept.created, kept.added, kept.retention, kept.retention_changed) == (False, OURS, timedelta(days=2), False)
    assert (changed.added, changed.retention, changed.retention_changed) == ((), timedelta(days=7), True)


async def test_attribute_of_another_type_is_left_to_a_person(server: EmbeddedServer) -> None:
    client = await client_of(server)
    await register(client, days=1)
    kind = IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD_LIST
    await client.operator_service.add_search_attributes(
        AddSearchAttributesRequest(namespace=client.namespace, search_attributes={"TarryTool": kind})
    )

    prepared = await prepare(client)

    (left,) = prepared.left
    assert left.why == "search attribute TarryTool is registered as KeywordList, not Keyword"
    assert "TarryTool" not in prepared.added
    assert [shlex.split(command)[:4] for command in left.commands] == [
        ["temporal", "operator", "search-attribute", "remove"],
        ["temporal", "operator", "search-attribute", "create"],
    ]


async def test_what_the_server_refuses_is_left_with_its_command(
    server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = await client_of(server)
    await register(client, days=1)

    async def denied(*_: object, **__: object) -> None:
        raise RPCError("Request unauthorized.", RPCStatusCode.PERMISSION_DENIED, b"")

    monkeypatch.setattr(client.operator_service, "list_search_attributes", denied)
    monkeypatch.setattr(client.operator_service, "add_search_attributes", denied)
    prepared = await prepare(client)

    commands = NamespaceCommands(client.namespace, server.address)
    assert [one.commands for one in prepared.left] == [(commands.create_attributes(ATTRIBUTES),)]


def test_on_temporal_cloud_the_commands_are_those_of_tcld() -> None:
    cloud = NamespaceCommands("agents.a1b2c", "agents.a1b2c.tmprl.cloud:7233")
    of_region = NamespaceCommands("agents.a1b2c", "eu-central-1.aws.api.temporal.io:7233")

    assert cloud.create_attributes(ATTRIBUTES[:2]) == (
        "tcld namespace search-attributes add --namespace agents.a1b2c "
        "--search-attribute TarryState=Keyword --search-attribute TarryConversation=Keyword"
    )
    assert cloud.set_retention(timedelta(days=30)) == (
        "tcld namespace retention set --namespace agents.a1b2c --retention-days 30"
    )
    assert of_region.is_cloud


async def test_the_command_makes_ready_and_tells_and_checks(server: EmbeddedServer, tmp_path: Path) -> None:
    name = f"tenant-{uuid.uuid4().hex[:8]}"
    kept = {key: value for key, value in environment_of(server.address).items() if not key.startswith("TARRY_")}
    tarry = Command(tmp_path, kept | {"PYTHONPATH": str(ROOT), "TEMPORAL_NAMESPACE": name})

    before = await tarry.run("namespace", "check", "--json")
    made = await tarry.run("namespace", "init", "--retention", "7", "--json")
    again = await tarry.run("namespace", "init")
    after = await tarry.run("namespace", "check", "--json")

    assert (before.code, before.json["ready"], len(before.json["left"])) == (2, False, 1)
    assert made.code == 0
    assert made.json == {
        "namespace": name,
        "address": server.address,
        "ready": True,
        "created": True,
        "added": list(OURS),
        "retention_days": 7,
        "retention_changed": False,
        "left": [],
    }
    assert again.out == f"namespace {name} at {server.address} is ready, closed workflows are kept for 7 days\n"
    assert (after.code, after.json["ready"], after.json["added"]) == (0, True, [])
