# A tool starts a CI build and parks until the service's webhook comes in at the gateway.
# A worker that dies before the park has started one build, not two; Stop while parked cancels the build.
#
#     .venv/bin/python examples/06_tool_waits_for_webhook.py

from __future__ import annotations

import asyncio
import os
import secrets
import signal
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from tarry import App, Extension, Received, Signal, Sleep, ToolApi, tool
from tarry.demo.ci.client import CiClient
from tarry.demo.ci.repository import FILE, FLAKY, STABLE, TESTS, check_out, edit
from tarry.demo.ci.service import ci_service
from tarry.demo.ci.webhook import secret_of
from tarry.testing import ScriptedModel, Stage, call, say
from tarry.webhooks import Event, StandardWebhooks, WebhookSource


class Result(BaseModel):
    status: str


CiResult = Signal("app.ci-result", 1, Result)


def told(body: Any, headers: Mapping[str, str]) -> Event:
    build = body["data"]
    return Event(match=build["correlation_id"], value={"status": build["status"]})


async def cancel_build(api: ToolApi) -> None:
    await CiClient(os.environ["CI"]).cancel(api.checkpoint)


@tool(replay="safe", cancel=cancel_build)
async def run_ci(api: ToolApi) -> str | Sleep:
    """Run the tests in CI."""
    match await api.read_signal(CiResult, "done"):
        case Received(value=result):
            return f"CI {result.status}"
    key = await api.memo("ci.run", secrets.token_hex(8))  # the first run's, also in a rerun
    await api.expect("ci", key, CiResult.key("done"))  # first, so that no webhook is too early
    build = await CiClient(os.environ["CI"]).start(Path(os.environ["REPOSITORY"]), TESTS, key)
    if os.environ["CRASH"] == "1":
        os.kill(os.getpid(), signal.SIGKILL)  # the build is started, and nothing here says so yet
    return Sleep(checkpoint=build.id, signals=[CiResult.key("done")], until=timedelta(hours=2))


app = App(
    model=ScriptedModel([call("run_ci"), lambda request: say(request.messages[-1].text)]),
    extensions=[Extension("ci", [run_ci], signals=[CiResult])],
    webhooks=[WebhookSource("ci", StandardWebhooks(), secret="CI_WEBHOOK_SECRET", event=told)],
)


async def main() -> None:
    secret = {"CI_WEBHOOK_SECRET": secret_of(secrets.token_bytes(24))}
    async with Stage("examples.06_tool_waits_for_webhook:app") as stage:
        gateway = await stage.start_gateway(**secret)
        hook, logs = f"{gateway.ready_line}/webhooks/ci", stage.folder / "builds"
        async with ci_service(hook, logs=logs, log=logs / "ci.log", environment=os.environ | secret) as service:
            repository = check_out(stage.folder / "repository")
            edit(repository, FILE, FLAKY, STABLE)
            environment = {"CI": service.ready_line, "REPOSITORY": str(repository), "CRASH": "0"}
            await crash_before_the_park(stage, CiClient(service.ready_line), environment)
            await stop_while_parked(stage, CiClient(service.ready_line))


async def crash_before_the_park(stage: Stage, ci: CiClient, environment: dict[str, str]) -> None:
    worker = await stage.start_worker(**environment | {"CRASH": "1"})
    conversation = stage.harness.conversation()
    submission = await conversation.submit("Run CI.")
    print(f"worker 1 ended by signal {-await worker.wait()}")
    await stage.start_worker(**environment)
    await stage.parked(conversation.id)
    (build,) = await ci.builds()
    print(f"worker 2 ran the call again: {build.id} was asked for {build.asked} times and is the only one")
    await ci.release(build.id)  # the service runs the tests and sends its webhook
    print((await submission.wait()).answer_text)


async def stop_while_parked(stage: Stage, ci: CiClient) -> None:
    conversation = stage.harness.conversation()
    submission = await conversation.submit("Run CI.")
    await stage.parked(conversation.id)
    await conversation.abort()
    print(f"stopped: {(await submission.wait()).reason}; builds: {', '.join(b.status for b in await ci.builds())}")


if __name__ == "__main__":
    asyncio.run(main())
