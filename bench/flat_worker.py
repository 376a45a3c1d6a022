"""The worker of the bare workflow: `python -m bench.flat_worker`. Every setting is the SDK's default."""

from __future__ import annotations

import asyncio
import signal

from temporalio import activity
from temporalio.client import Client
from temporalio.envconfig import ClientConfig
from temporalio.worker import Worker

from bench.agents import ANSWER, FOUND, KEY
from bench.flat import TASK_QUEUE, Flat, Message


@activity.defn
async def model(messages: list[Message]) -> Message:
    """Like a model that answers at once: a call first, then the answer."""
    return Message("assistant", ANSWER) if len(messages) > 1 else Message("assistant", call=KEY)


@activity.defn
async def tool(key: str) -> str:
    """Like a tool that answers at once."""
    return FOUND


async def serve() -> None:
    """Run until SIGTERM."""
    client = await Client.connect(**ClientConfig.load_client_connect_config())
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with Worker(client, task_queue=TASK_QUEUE, workflows=[Flat], activities=[model, tool]):
        print("ready", flush=True)
        await stop.wait()


if __name__ == "__main__":
    asyncio.run(serve())
