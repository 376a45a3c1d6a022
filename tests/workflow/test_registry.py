"""Hooks that come and go by deploys while calls wait before their intent: who is asked anew, and when (spec §5.3)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from temporalio.client import Client

from tarry.core import registry, task
from tarry.core.gates import REASK
from tarry.core.registry import registry_id
from tarry.embedded import EmbeddedServer
from tests.support.deploys import (
    ALLOW,
    Gate,
    Word,
    app_of,
    asked_under,
    current,
    deploy,
    events,
    outcome,
    reasks,
    start,
    stop,
    sweeps,
    swept,
    tell,
    waiting,
)
from tests.support.stage import Stage, idle_stage
from tests.support.waiting import eventually
from workers import worker


async def test_a_deploy_without_a_gate_lets_the_rest_decide_at_once(server: EmbeddedServer, tmp_path: Path) -> None:
    people, rest = Gate("people"), Gate("rest")
    before, after = app_of(people), app_of(rest)
    async with idle_stage(server, before, tmp_path) as on:
        async with on.worker():
            await tell(on, before)
            task_id = await start(on)
        async with on.worker(after):
            await tell(on, after)
            await rest.asked()
            await on.harness.signal(task_id, ALLOW, "rest", Word())

            assert await outcome(on, task_id) == ("", "deployed it")
    assert (people.seen, rest.seen) == (["NoneType"], ["NoneType", "Received"])


async def test_a_deploy_without_any_gate_lets_the_call_run(server: EmbeddedServer, tmp_path: Path) -> None:
    before, after = app_of(Gate("people")), app_of()
    async with idle_stage(server, before, tmp_path) as on:
        async with on.worker():
            await tell(on, before)
            task_id = await start(on)
        async with on.worker(after):
            await tell(on, after)

            assert await outcome(on, task_id) == ("", "deployed it")


async def test_a_gate_that_a_deploy_adds_is_asked(server: EmbeddedServer, tmp_path: Path) -> None:
    people, added = Gate("people"), Gate("added")
    before, after = app_of(people), app_of(added, people)
    async with idle_stage(server, before, tmp_path) as on:
        async with on.worker():
            await tell(on, before)
            task_id = await start(on)
        async with on.worker(after):
            await on.harness.publish(after)
            await added.asked()
            assert people.seen == ["NoneType"], "the one before it sleeps"
            await on.harness.signal(task_id, ALLOW, "people", Word())
            await on.harness.signal(task_id, ALLOW, "added", Word())

            assert await outcome(on, task_id) == ("", "deployed it")


async def test_another_version_of_an_extension_is_another_gate(server: EmbeddedServer, tmp_path: Path) -> None:
    old, new = Gate("people"), Gate("people", version="2")
    async with idle_stage(server, app_of(old), tmp_path) as on:
        async with on.worker():
            await tell(on, app_of(old))
            await start(on)
        async with on.worker(app_of(new)):
            await tell(on, app_of(new))
            await new.asked()

    assert old.seen == ["NoneType"]


async def test_workers_that_start_again_with_the_same_hooks_wake_nobody_and_cost_their_announcement(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    people = Gate("people")
    app = app_of(people)
    async with idle_stage(server, app, tmp_path) as on, on.worker():
        await tell(on, app)
        await swept(on, 1)
        task_id = await start(on)
        before = len(await events(on, registry_id(on.settings.task_queue)))
        for _ in range(2):
            await tell(on, app)
            await on.harness.publish(app)
        assert await current(on) == app.registry.fingerprint
        history = await events(on, registry_id(on.settings.task_queue))

        assert await reasks(on, task_id) == 0
        assert await sweeps(on) == 1
        assert len(history) - before <= 4 * 4, "for each a signal, and a workflow task of three events"
        await stop(on, task_id)

    assert people.seen == ["NoneType"]


async def test_a_deadline_that_has_passed_expires_the_keys_in_place_of_asking_anew(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    until = datetime.now(UTC) + timedelta(seconds=15)
    old, new = Gate("people", until=until), Gate("people", version="2")
    async with idle_stage(server, app_of(old), tmp_path) as on:
        async with on.worker():
            await tell(on, app_of(old))
            task_id = await start(on)
        await on.client.get_workflow_handle(task_id).signal(REASK, app_of(new).registry.fingerprint)

        async def has_passed() -> bool:
            return datetime.now(UTC) > until + timedelta(seconds=0.2)

        await eventually(has_passed)
        async with on.worker(app_of(new)):
            ended = await outcome(on, task_id)

    assert (old.seen, new.seen) == (["NoneType"], ["Expired"])
    assert ended[0] == "expired"


async def test_calls_in_a_removed_tool_and_at_a_removed_gate_both_come_to_an_end(
    server: EmbeddedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task, "NOT_HERE_PAUSE", 0.0)
    people, added = Gate("people"), Gate("added")
    async with idle_stage(server, app_of(people), tmp_path) as on:
        async with on.worker():
            await tell(on, app_of(people))
            gated = await start(on)
        async with on.worker(app_of(calling="runs_ci")):
            inside = await start(on, "sleeping")
        after = app_of(added, tools=[deploy])
        async with on.worker(after):
            await tell(on, after)
            await added.asked()
            answers = [
                (await on.harness.signal(gated, ALLOW, "people", Word())).answer,
                (await on.harness.signal(inside, ALLOW, "ci", Word())).answer,
                (await on.harness.signal(gated, ALLOW, "added", Word())).answer,
            ]
            ends = [await outcome(on, task_id) for task_id in (gated, inside)]

    assert answers == ["delivered"] * 3
    assert ends[0] == ("", "deployed it")
    assert ends[1][0] == "tool_unavailable"
    assert '{"build": 7}' in ends[1][1]


async def test_a_sweep_tells_only_calls_that_were_asked_under_other_hooks(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    old, new = app_of(Gate("people")), app_of(Gate("people", version="2"))
    async with idle_stage(server, old, tmp_path) as on:
        async with on.worker():
            stale = [await start(on) for _ in range(3)]
        async with on.worker(app_of(calling="runs_ci")):
            inside = await start(on, "sleeping")
        async with on.worker(new):
            fresh = [await start(on) for _ in range(2)]
            await on.harness.publish(new)
            await swept(on, 1)
            for task_id in stale:
                await asked_under(on, task_id, new)
            told = [await reasks(on, task_id) for task_id in (*stale, *fresh, inside)]
            await stop(on, *stale, *fresh, inside)

    assert told == [1, 1, 1, 0, 0, 0]


async def test_a_pass_that_was_under_way_at_the_change_is_found_by_the_sweep_that_follows(
    server: EmbeddedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "SETTLING", timedelta(seconds=4))
    old, new = Gate("people", holds=True), Gate("people", version="2")
    async with idle_stage(server, app_of(old), tmp_path) as on:
        async with on.worker():
            await tell(on, app_of(old))
            await swept(on, 1)
            conversation = on.harness.conversation("asked-meanwhile")
            await conversation.submit("go")
            await old.asked()
            await on.harness.publish(app_of(new))
            await swept(on, 2)
            old.go.set()
            task_id = await waiting(on, conversation.id)
        async with on.worker(app_of(new)):
            await asked_under(on, task_id, app_of(new))
            assert await reasks(on, task_id) == 1
            await stop(on, task_id)

    assert (old.seen, new.seen) == (["NoneType"], ["NoneType"])


async def test_a_call_that_an_older_worker_asks_again_is_found_again_when_that_one_is_gone(
    server: EmbeddedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "SETTLING", timedelta(seconds=2))
    # Workflows stay with the worker that has them in its cache, also a slow one. When it is gone, each waits as long.
    monkeypatch.setattr(worker, "STICKY_TIMEOUT", timedelta(seconds=15))
    old, new = Gate("people"), Gate("people", version="2")
    async with idle_stage(server, app_of(old), tmp_path) as on:
        other = Stage(
            await Client.connect(server.address, data_converter=on.client.data_converter), on.settings, on.app
        )
        async with on.worker():
            await tell(on, app_of(old))
            await swept(on, 1)
            task_id = await start(on)
            async with other.worker(app_of(new)):
                await on.harness.publish(app_of(new))
                await old.asked(2)
                await asked_under(on, task_id, app_of(old))
        async with other.worker(app_of(new)):
            await asked_under(on, task_id, app_of(new))
            await stop(on, task_id)

    assert (set(old.seen), set(new.seen)) == ({"NoneType"}, {"NoneType"})
