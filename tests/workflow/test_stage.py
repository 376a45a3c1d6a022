"""What a stage gives the tests of an application that waits."""

from __future__ import annotations

import httpx
import pytest

from tarry.embedded import EmbeddedServer
from tarry.processes import ChildError
from tarry.testing import Stage, eventually

ASKS = "examples.05_ask_a_person:app"


async def test_parked_call_is_found_with_no_worker_up(server: EmbeddedServer) -> None:
    async with Stage(ASKS, server=server) as stage:
        worker = await stage.start_worker()
        conversation = stage.harness.conversation()
        await conversation.submit("14400")
        parked = await stage.parked(conversation.id)
        await worker.stop()

        assert parked.startswith(f"{conversation.id}~")
        assert await stage.parked(conversation.id) == parked


async def test_gateway_listens_where_its_ready_line_says(server: EmbeddedServer) -> None:
    async with Stage(ASKS, server=server) as stage:
        gateway = await stage.start_gateway()

        async with httpx.AsyncClient(trust_env=False) as client:
            answer = await client.post(f"{gateway.ready_line}/webhooks/nobody", json={})
        assert answer.status_code == 404


async def test_gateway_without_a_secret_tells_why_it_cannot_start(server: EmbeddedServer) -> None:
    async with Stage("tarry.demo.ci.agent:scripted", server=server) as stage:
        with pytest.raises(ChildError, match=r"exit code 2; .*\ngateway: webhook source ci: set CI_WEBHOOK_SECRET"):
            await stage.start_gateway()


async def test_first_accepted_answer_is_returned() -> None:
    answers = iter([0, 1, 2])

    async def ask() -> int:
        return next(answers)

    assert await eventually(ask, lambda answer: answer > 1) == 2


async def test_answer_that_never_comes_is_told_with_the_last_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tarry.testing.waiting.PATIENCE", 0)

    async def ask() -> str:
        return ""

    with pytest.raises(TimeoutError, match="the last answer was ''"):
        await eventually(ask)


async def test_processes_of_a_stage_get_the_secrets_themselves(
    server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TARRY_GATEWAY_TOKEN", "t" * 32)
    monkeypatch.setenv("TARRY_CALLBACK_SECRETS", "s" * 32)
    async with Stage(ASKS, server=server) as stage:
        environment = stage.environment()
        gateway = await stage.start_gateway()

        async with httpx.AsyncClient(trust_env=False, headers={"Authorization": f"Bearer {'t' * 32}"}) as client:
            answer = await client.get(f"{gateway.ready_line}/conversations/nobody/events")

    assert (environment["TARRY_GATEWAY_TOKEN"], environment["TARRY_CALLBACK_SECRETS"]) == ("t" * 32, "s" * 32)
    assert answer.status_code == 404
