"""Server-sent events of a conversation, over real HTTP (spec §7.9)."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from tarry.core.live import LiveView
from tarry.embedded import EmbeddedServer
from tarry.testing import ScriptedModel, call, say
from tests.support.gateways import gateway
from tests.support.held import HeldModel, HeldTool
from tests.support.rpcs import counted_rpcs
from tests.support.stage import app_of, idle_stage, stage
from tests.support.streams import stream
from tests.support.waiting import PATIENCE, eventually
from workers import gateway_events
from workers.gateway import Server, build_gateway, listen, url_of

TOKEN = "t" * 32
READABLE: dict[str, Any] = {"gateway_token": SecretStr(f"{'old' * 11} {TOKEN}")}


def is_quiet(view: LiveView) -> bool:
    return view.run is None and bool(view.entries)


def has_streamed(view: LiveView) -> bool:
    return view.run is not None and view.run.message is not None and bool(view.run.message.text.text)


async def test_browsers_hear_a_run_to_its_end_from_one_watcher(server: EmbeddedServer, tmp_path: Path) -> None:
    model = HeldModel(ScriptedModel([say("done")]), partial="so far")
    async with stage(server, app_of(model), tmp_path) as on, gateway(on, **READABLE) as sender:
        conversation = on.harness.conversation()
        await conversation.submit("go")
        async with contextlib.AsyncExitStack() as stack:
            heard = [await stack.enter_async_context(stream(sender.http, conversation.id, TOKEN)) for _ in range(4)]
            await asyncio.gather(*(one.until(has_streamed) for one in heard))
            with counted_rpcs() as asked:
                await asyncio.sleep(2)
            model.go.set()
            views = await asyncio.gather(*(one.until(lambda v: is_quiet(v) and bool(v.settled)) for one in heard))

        assert asked["describe_workflow_execution"] <= 2 * 5 + 1
        assert [one.events[0].type for one in heard] == ["snapshot"] * 4
        assert all(len(set(one.ids)) == len(one.events) for one in heard)
        assert {tuple(view.entries) for view in views} == {tuple(await conversation.transcript())}


async def test_reader_that_comes_back_is_given_a_snapshot_first(server: EmbeddedServer, tmp_path: Path) -> None:
    async with stage(server, app_of(ScriptedModel.for_each_input([say("done")])), tmp_path) as on:
        conversation = on.harness.conversation()
        await (await conversation.submit("go")).wait()
        async with gateway(on, **READABLE) as sender:
            async with stream(sender.http, conversation.id, TOKEN) as first:
                await first.until(is_quiet)
            await (await conversation.submit("again")).wait()
            async with stream(sender.http, conversation.id, TOKEN, **{"Last-Event-ID": first.ids[-1]}) as second:
                view = await second.until(is_quiet)

        assert second.events[0].type == "snapshot"
        assert list(view.entries) == await conversation.transcript()


async def test_stream_lives_through_a_worker_restart(server: EmbeddedServer, tmp_path: Path) -> None:
    held = HeldTool(replay="safe")
    model = ScriptedModel([call("work", what="it"), say("done")])
    async with idle_stage(server, app_of(model, held.tool), tmp_path) as on, gateway(on, **READABLE) as sender:
        conversation = on.harness.conversation()
        await conversation.submit("go")
        async with stream(sender.http, conversation.id, TOKEN) as heard:
            assert (await heard.until(lambda view: True)).contact == "no_worker"
            async with on.worker():
                await heard.until(lambda view: view.run and view.run.calls and view.run.calls[0].output.text)
            held.go.set()
            async with on.worker():
                view = await heard.until(lambda view: is_quiet(view) and view.contact == "up")
        assert view.entries[-1].kind == "assistant"


async def test_reader_that_vanishes_is_forgotten_and_the_gateway_pings_the_others(
    server: EmbeddedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[gateway_events.Streams] = []
    plain = gateway_events.Streams.__init__

    def noted(self: gateway_events.Streams, *arguments: Any, **options: Any) -> None:
        plain(self, *arguments, **options)
        self._ping_seconds = 1
        made.append(self)

    monkeypatch.setattr(gateway_events.Streams, "__init__", noted)
    async with stage(server, app_of(ScriptedModel([say("done")])), tmp_path) as on:
        conversation = on.harness.conversation()
        await (await conversation.submit("go")).wait()
        async with gateway(on, **READABLE) as sender, stream(sender.http, conversation.id, TOKEN) as stays:
            await stays.until(is_quiet)
            async with stream(sender.http, conversation.id, TOKEN) as leaves:
                await leaves.until(is_quiet)
                assert made[0].watched == {conversation.id: 2}
            await stays.pinged()

            async def watched() -> dict[str, int]:
                return made[0].watched

            await eventually(watched, lambda found: found == {conversation.id: 1})


async def test_nobody_reads_without_the_token(server: EmbeddedServer, tmp_path: Path) -> None:
    async with idle_stage(server, app_of(ScriptedModel([])), tmp_path) as on:
        async with gateway(on) as sender:
            closed = await sender.http.get("/conversations/c/events")
        async with gateway(on, **READABLE) as sender:
            answers = [
                await sender.http.get("/conversations/c/events", headers={"Authorization": sent})
                for sent in ("", "Bearer wrong", f"Basic {TOKEN}", f"Bearer {TOKEN}")
            ]

    assert (closed.status_code, "TARRY_GATEWAY_TOKEN" in closed.json()["reason"]) == (403, True)
    assert [answer.status_code for answer in answers] == [401, 401, 401, 404]


async def test_streams_are_bounded(server: EmbeddedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway_events, "MAX_STREAMS", 1)
    async with stage(server, app_of(ScriptedModel([say("done")])), tmp_path) as on:
        conversation = on.harness.conversation()
        await (await conversation.submit("go")).wait()
        async with gateway(on, **READABLE) as sender, stream(sender.http, conversation.id, TOKEN) as first:
            await first.until(is_quiet)
            async with stream(sender.http, conversation.id, TOKEN) as second:
                assert second.status == 503


async def test_gateway_that_stops_ends_its_streams_at_once(server: EmbeddedServer, tmp_path: Path) -> None:
    async with stage(server, app_of(ScriptedModel([say("done")])), tmp_path) as on:
        conversation = on.harness.conversation()
        await (await conversation.submit("go")).wait()
        settings = on.settings.model_copy(update=READABLE)
        server_of_streams, listening = Server(build_gateway(on.client, {}, settings)), listen("127.0.0.1", 0)
        serving = asyncio.create_task(server_of_streams.serve([listening]))
        async with httpx.AsyncClient(base_url=url_of(listening), trust_env=False, timeout=60) as http:
            async with stream(http, conversation.id, TOKEN) as heard:
                await heard.until(is_quiet)
                server_of_streams.should_exit = True
                await heard.ended()
            async with asyncio.timeout(PATIENCE):
                await serving
