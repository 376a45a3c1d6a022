from __future__ import annotations

import asyncio
import atexit
import os
import shlex
import socket
import sys
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from google.protobuf.duration_pb2 import Duration
from pydantic import BaseModel
from temporalio import activity, workflow
from temporalio.api.enums.v1 import EventType, IndexedValueType
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest
from temporalio.api.workflowservice.v1 import RegisterNamespaceRequest
from temporalio.client import Client, WorkflowHandle
from temporalio.service import RPCError, RPCStatusCode
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from tarry.connect import ConnectError, ServerUnreachable, check_search_attributes, connect, data_converter
from tarry.core.attributes import ATTRIBUTES
from tarry.embedded import EmbeddedServer, free_port
from tarry.settings import Settings
from tarry.store import StoreError
from tests.support.waiting import PATIENCE

BIG = 5 * 1024 * 1024
LIMIT: dict[str, Any] = {"start_to_close_timeout": timedelta(seconds=30)}


@pytest.fixture(autouse=True)
def temporal_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, server: EmbeddedServer) -> None:
    """This session's server, and nothing of the machine's own settings."""
    for name in [name for name in os.environ if name.startswith(("TEMPORAL_", "TARRY_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("TEMPORAL_CONFIG_FILE", str(tmp_path / "none.toml"))
    monkeypatch.setenv("TEMPORAL_ADDRESS", server.address)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def settings(store: Path) -> Settings:
    return Settings(store=str(store))


def blobs(store: Path) -> list[Path]:
    return [path for path in store.rglob("*") if path.is_file()]


class Report(BaseModel):
    text: str


@activity.defn(name="test.big")
async def big(size: int) -> Report:
    return Report(text="x" * size)


@activity.defn(name="test.hide")
async def hide(directory: str) -> None:
    """Take every blob out of the store."""
    await asyncio.to_thread(os.rename, directory, f"{directory}.hidden")


@workflow.defn(name="test.large")
class Large:
    @workflow.run
    async def run(self, size: int) -> Report:
        report: Report = await workflow.execute_activity("test.big", size, result_type=Report, **LIMIT)
        return report


@workflow.defn(name="test.hidden")
class Hidden:
    @workflow.run
    async def run(self, directory: str) -> int:
        report = await workflow.execute_activity("test.big", BIG, result_type=Report, **LIMIT)
        await workflow.execute_activity("test.hide", directory, **LIMIT)
        return len(report.text)


@pytest.fixture
async def client(settings: Settings) -> AsyncIterator[Client]:
    """A client with a worker that caches nothing: each workflow task reads the store again."""
    client = await connect(settings)
    async with Worker(
        client,
        task_queue="test-connect",
        workflows=[Large, Hidden],
        activities=[big, hide],
        workflow_runner=UnsandboxedWorkflowRunner(),
        max_cached_workflows=0,
        max_concurrent_workflow_task_polls=1,
    ):
        yield client


async def start(client: Client, name: str, argument: Any) -> WorkflowHandle[Any, Any]:
    return await client.start_workflow(name, argument, id=f"{name}-{uuid4()}", task_queue="test-connect")


async def test_large_results_cross_with_a_small_history(client: Client, store: Path) -> None:
    handle = await start(client, "test.large", BIG)

    result = Report.model_validate(await handle.result())

    history = await handle.fetch_history()
    assert len(result.text) == BIG
    assert sum(event.ByteSize() for event in history.events) < 10_000
    # The activity's result and the workflow's are the same bytes, hence one blob.
    assert len(blobs(store)) == 1


async def test_small_values_stay_in_history_for_people_to_read(client: Client, store: Path) -> None:
    handle = await start(client, "test.large", 20_000)

    await handle.result()

    assert b"x" * 20_000 in (await handle.fetch_history()).events[-1].SerializeToString()
    assert blobs(store) == []


async def test_missing_blob_stops_its_reader_with_its_name_and_store(client: Client, store: Path) -> None:
    handle = await start(client, "test.large", BIG)
    await handle.result()
    [blob] = blobs(store)
    blob.unlink()

    with pytest.raises(StoreError, match=f"blob {blob.name} is missing from the store {store}"):
        await handle.result()


async def test_workflow_with_a_missing_blob_says_so_and_goes_on_when_it_is_back(client: Client, store: Path) -> None:
    handle = await start(client, "test.hidden", str(store))

    failure = ""
    async for event in handle.fetch_history_events(wait_new_event=True):
        if event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED:
            failure = event.workflow_task_failed_event_attributes.failure.message
            break
    os.rename(f"{store}.hidden", store)

    assert f"is missing from the store {store}" in failure
    assert await handle.result() == BIG


async def refusal(settings: Settings) -> str:
    with pytest.raises(ConnectError) as refused:
        await connect(settings)
    assert "\n" not in str(refused.value)
    return str(refused.value)


async def test_connects_by_the_profile_of_a_configuration_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, server: EmbeddedServer, settings: Settings
) -> None:
    (tmp_path / "temporal.toml").write_text(f'[profile.blue]\naddress = "{server.address}"\nnamespace = "default"\n')
    monkeypatch.delenv("TEMPORAL_ADDRESS")
    monkeypatch.setenv("TEMPORAL_CONFIG_FILE", str(tmp_path / "temporal.toml"))
    monkeypatch.setenv("TEMPORAL_PROFILE", "blue")

    client = await connect(settings)

    assert client.service_client.config.target_host == server.address
    assert (await client.count_workflows("")).count >= 0


async def test_however_many_connections_a_process_makes_its_end_waits_once(settings: Settings) -> None:
    await connect(settings)
    at_exit = atexit._ncallbacks()

    await connect(settings)

    assert atexit._ncallbacks() == at_exit


async def test_no_server_says_what_was_tried_and_how_to_start_one(
    monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    address = f"127.0.0.1:{free_port()}"
    monkeypatch.setenv("TEMPORAL_ADDRESS", address)

    assert await refusal(settings) == (
        f"no Temporal server at {address} (connection refused): start one with `tarry dev`, or set TEMPORAL_ADDRESS"
    )


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"TEMPORAL_ADDRESS": "no.such.host.invalid:7233"}, "no.such.host.invalid:7233 (unknown host): start one"),
        (
            {"TEMPORAL_ADDRESS": "127.0.0.1:none"},
            "127.0.0.1:none cannot be connected to as configured (invalid target URL",
        ),
        ({"TEMPORAL_TLS": "true"}, "(it does not speak TLS): check TEMPORAL_ADDRESS (host:port), TEMPORAL_API_KEY"),
        (
            {"TEMPORAL_TLS_CLIENT_CERT_DATA": "x"},
            "Must have both client cert and private key or neither): check TEMPORAL",
        ),
        ({"TEMPORAL_API_KEY": "key"}, "(it does not speak TLS): check TEMPORAL_ADDRESS (host:port), TEMPORAL_API_KEY"),
        ({"TEMPORAL_PROFILE": "green"}, "(Profile 'green' not found): check TEMPORAL_CONFIG_FILE, TEMPORAL_PROFILE"),
        ({"TEMPORAL_TLS_CLIENT_CERT_PATH": "/none.pem"}, "No such file or directory: '/none.pem'): check TEMPORAL_"),
    ],
)
async def test_wrong_temporal_setting_says_in_one_line_what_to_check(
    monkeypatch: pytest.MonkeyPatch, settings: Settings, variables: dict[str, str], message: str
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    assert message in await refusal(settings)


async def test_unreadable_configuration_file_is_refused_in_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, settings: Settings
) -> None:
    (tmp_path / "temporal.toml").write_text("[profile.default\naddress")
    monkeypatch.setenv("TEMPORAL_CONFIG_FILE", str(tmp_path / "temporal.toml"))

    assert "TOML parse error at line 1" in await refusal(settings)


async def test_missing_namespace_comes_with_the_command_that_creates_it(
    monkeypatch: pytest.MonkeyPatch, server: EmbeddedServer, settings: Settings
) -> None:
    namespace = f"ns-{uuid4()}"
    monkeypatch.setenv("TEMPORAL_NAMESPACE", namespace)

    message = await refusal(settings)
    assert f"namespace {namespace} does not exist at {server.address}" in message
    await run_command_of(message)

    assert (await connect(settings)).namespace == namespace


async def test_silent_server_is_given_up_on(monkeypatch: pytest.MonkeyPatch, settings: Settings) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        monkeypatch.setenv("TEMPORAL_ADDRESS", address)

        assert f"no Temporal server at {address} (no answer)" in await refusal(settings)


async def test_server_that_comes_up_within_the_wait_is_connected_to(
    monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    late = EmbeddedServer()
    monkeypatch.setenv("TEMPORAL_ADDRESS", late.address)

    waiting = asyncio.create_task(connect(settings, wait=timedelta(seconds=20)))
    try:
        await late.start()
        client = await waiting
    finally:
        await late.stop()

    assert client.service_client.config.target_host == late.address


async def test_wait_ends_with_the_last_refusal(monkeypatch: pytest.MonkeyPatch, settings: Settings) -> None:
    monkeypatch.setenv("TEMPORAL_ADDRESS", f"127.0.0.1:{free_port()}")

    async with asyncio.timeout(PATIENCE):
        with pytest.raises(ServerUnreachable, match="connection refused"):
            await connect(settings, wait=timedelta(milliseconds=300))


async def run_command_of(message: str) -> None:
    """Run the last command that a message holds, as a person would from their shell."""
    program, *arguments = shlex.split(message.split("`")[-2])
    assert program == "temporal"
    process = await asyncio.create_subprocess_exec(
        str(Path(sys.executable).with_name("temporal")), *arguments, stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate()
    assert process.returncode == 0, output


@pytest.fixture
async def bare(server: EmbeddedServer) -> Client:
    """A client of a new namespace, in which no search attribute of ours is registered."""
    client = await Client.connect(server.address, namespace=f"bare-{uuid4()}")
    await client.workflow_service.register_namespace(
        RegisterNamespaceRequest(
            namespace=client.namespace, workflow_execution_retention_period=Duration(seconds=86_400)
        )
    )
    return client


async def attributes_refusal(client: Client) -> str:
    with pytest.raises(ConnectError) as refused:
        await check_search_attributes(client)
    assert "\n" not in str(refused.value)
    return str(refused.value)


async def test_server_of_ours_has_every_search_attribute(settings: Settings) -> None:
    await check_search_attributes(await connect(settings))


async def test_missing_search_attributes_come_with_the_command_that_creates_them(bare: Client) -> None:
    message = await attributes_refusal(bare)

    assert all(attribute.name in message for attribute in ATTRIBUTES)
    await run_command_of(message)
    await check_search_attributes(bare)


async def test_search_attribute_of_another_type_is_refused_with_the_way_out(bare: Client) -> None:
    await run_command_of(await attributes_refusal(bare))
    await run_command_of(f"`temporal operator search-attribute remove --yes --name TarryTool {place(bare)}`")
    await bare.operator_service.add_search_attributes(
        AddSearchAttributesRequest(
            namespace=bare.namespace,
            search_attributes={"TarryTool": IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD_LIST},
        )
    )

    message = await attributes_refusal(bare)

    assert "TarryTool is registered as KeywordList, not Keyword" in message
    assert f"`temporal operator search-attribute create --name TarryTool --type Keyword {place(bare)}`" in message


def place(client: Client) -> str:
    return f"--namespace {client.namespace} --address {client.service_client.config.target_host}"


async def test_where_attributes_may_not_be_listed_visibility_is_asked(
    bare: Client, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def denied(*_: object, **__: object) -> None:
        raise RPCError("Request unauthorized.", RPCStatusCode.PERMISSION_DENIED, b"")

    ours = await connect(settings)
    for client in (bare, ours):
        monkeypatch.setattr(client.operator_service, "list_search_attributes", denied)

    message = await attributes_refusal(bare)
    assert all(attribute.name in message for attribute in ATTRIBUTES)
    await check_search_attributes(ours)


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        (float("nan"), "a float holds NaN or an infinity, which is not JSON"),
        ({"a": ["NaN", float("inf")]}, "a dict holds NaN or an infinity, which is not JSON"),
        ("lone \ud800", "surrogates not allowed"),
        ({"\udfff": 1}, "surrogates not allowed"),
        ({"a": b"\xff"}, "invalid utf-8"),
        (object(), "Unable to serialize unknown type"),
    ],
)
async def test_value_that_is_not_json_is_refused_when_it_is_encoded(tmp_path: Path, value: Any, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        await data_converter(str(tmp_path)).encode([value])


async def test_text_that_names_nan_is_plain_text(tmp_path: Path) -> None:
    converter = data_converter(str(tmp_path))
    value = {"a": ["NaN", "-Infinity", '"NaN'], "NaN": "\\"}

    assert await converter.decode(await converter.encode([value])) == [value]
