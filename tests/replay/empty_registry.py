"""Replay every kept history in an interpreter in which no application can come to exist; prints how many."""

from __future__ import annotations

import asyncio
import sys
from typing import Any, NoReturn

from tarry import app


def refuse(*_: Any, **__: Any) -> NoReturn:
    raise AssertionError("a replay asked for an application")


async def replay_all() -> int:
    """Every history of every scenario."""
    # Only now: what this module imports must not be able to make one either.
    app.App.__init__ = app.Registry.__init__ = app.Extension.__init__ = refuse  # type: ignore[method-assign]
    from tests.replay import kept

    replayer, replayed = kept.replayer(), 0
    for name in kept.names():
        for history in kept.read(name):
            await replayer.replay_workflow(history)
            replayed += 1
    return replayed


if __name__ == "__main__":
    print(asyncio.run(replay_all()))
    loaded = [name for name in sys.modules if name.startswith(("examples", "tarry.demo", "tests.support"))]
    assert loaded == [], loaded
