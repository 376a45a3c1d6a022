"""A supervisor: `python -m workers.supervisor --app module:attribute [--json]` (docs/scaling.md, spec §9.4).

Keeps as many workers as are needed, none while all is parked. It decides nothing by itself (`tarry/core/scaling.py`),
keeps nothing, and ends what it started and nothing else; any number may run for one queue.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import fcntl
import itertools
import logging
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tarry.app import App
from tarry.client import ServerUnavailable, WakeCheck
from tarry.connect import ConnectError, check_search_attributes, connect
from tarry.core.routing import DEFAULT
from tarry.core.scaling import Scaling, ScalingRules, Start, Stop
from tarry.core.wake_plan import WakePlan
from tarry.loading import LoadError
from tarry.processes import STOP_PATIENCE, Child, worker
from tarry.seeing.exporting import process_meter
from tarry.settings import Settings, SettingsError
from tarry.store import StoreError
from workers.beginning import begin
from workers.gauges import showing
from workers.poking import SocketTaken, listening
from workers.special import served
from workers.supervised import Supervised, Tell
from workers.supervisor_lines import teller
from workers.supervisor_metrics import counting

STATE = Path(".tarry")
"""Where the logs of its workers are, in a folder of each supervisor's own."""

_SHORTEST_PAUSE = 2.0
_LOAD = 0.1
"""The part of the time that looking may take."""

Look = Callable[[], Awaitable[WakePlan]]
Make = Callable[[int], Child]
"""A worker with this number, not yet started."""


class Supervisor:
    """Workers for one task queue. `patience`: seconds in which one that is told to stop may do so."""

    def __init__(self, look: Look, make: Make, rules: ScalingRules, tell: Tell, patience: float) -> None:
        self._look = look
        self._make = make
        self._scaling = Scaling(rules)
        self._tell = tell
        self._patience = patience
        self._lives: dict[Supervised, asyncio.Task[None]] = {}
        self._changed = asyncio.Event()
        self._is_over = False

    def poked(self, at: datetime, what: str) -> None:
        """Work came."""
        self._tell("poked", what=what)
        self._scaling.poked(at)
        self._changed.set()

    def leave(self) -> None:
        """Let `run` return when all workers have stopped."""
        self._is_over = True
        self._changed.set()

    async def run(self) -> None:
        """Look, start and stop until told to leave."""
        looking = asyncio.create_task(self._look_on())
        try:
            while not self._is_over:
                self._act()
                await self._pause()
        finally:
            looking.cancel()
            self._stop(len(self._lives), "the supervisor is told to")
            await asyncio.gather(*self._lives.values())

    def _act(self) -> None:
        match self._scaling.decide(_now()):
            case Start() as start:
                for _ in range(start.number):
                    self._begin(start)
            case Stop(number=number):
                self._stop(number, "all is parked")
            case None:
                pass

    async def _pause(self) -> None:
        """Return when something has changed, or it is time to decide again."""
        now = _now()
        again = self._scaling.next_moment(now)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(None if again is None else (again - now).total_seconds()):
                await self._changed.wait()
        self._changed.clear()

    def _begin(self, start: Start) -> None:
        taken = {one.number for one in self._lives}
        number = next(number for number in itertools.count(1) if number not in taken)
        one = Supervised(number, self._make(number), start, self._tell, self._patience)
        self._lives[one] = asyncio.create_task(self._live(one))

    async def _live(self, one: Supervised) -> None:
        code = await one.live(self._scaling.ready)
        del self._lives[one]
        if one.is_told:
            self._tell("stopped", worker=one.number, code=code)
        else:
            now = _now()
            self._scaling.died(now, lived=one.lived, was_ready=one.is_ready)
            assert self._scaling.not_before is not None
            pause = (self._scaling.not_before - now).total_seconds()
            self._tell("died", worker=one.number, code=code, deaths=self._scaling.deaths, pause=pause)
        self._changed.set()

    def _stop(self, number: int, why: str) -> None:
        """Tell as many to stop, the newest first."""
        staying = [one for one in self._lives if not one.is_told]
        for one in staying[::-1][:number]:
            self._scaling.leaves(was_ready=one.is_ready)
            one.leave(why)

    async def _look_on(self) -> None:
        """Look for ever; while that fails, what was planned stays planned."""
        told: WakePlan | None = None
        is_away = False
        while True:
            began = time.monotonic()
            try:
                plan = await self._look()
            # One that stops looking would be noticed by nobody.
            except Exception as error:
                if not is_away:
                    self._tell("unreachable", reason=_reason(error))
                is_away = True
            else:
                if plan != told or is_away:
                    due = plan.at.isoformat() if plan.at else None
                    self._tell("plan", active=plan.active, why=plan.why, due=due)
                told, is_away = plan, False
                self._scaling.saw(plan, _now())
                self._changed.set()
            await asyncio.sleep(max(_SHORTEST_PAUSE, (time.monotonic() - began) * (1 / _LOAD - 1)))


def _now() -> datetime:
    return datetime.now(UTC)


def _reason(error: Exception) -> str:
    kind = "" if isinstance(error, ServerUnavailable) else f"{type(error).__name__}: "
    return " ".join(f"{kind}{error}".split())


def rules_of(settings: Settings) -> ScalingRules:
    """The rules as set.

    Raises:
        SettingsError: the fewest are more than the most.
    """
    if settings.scale_min > settings.scale_max:
        raise SettingsError(
            f"TARRY_SCALE_MIN={settings.scale_min} is refused: give at most TARRY_SCALE_MAX, {settings.scale_max}"
        )
    return ScalingRules(
        fewest=settings.scale_min,
        most=settings.scale_max,
        quiet=timedelta(seconds=settings.scale_quiet),
        ahead=timedelta(seconds=settings.scale_ahead),
    )


@contextlib.contextmanager
def own_folder(state: Path) -> Iterator[Path]:
    """A folder below `state` that no other supervisor writes to within the context; the next one may."""
    for number in itertools.count(1):
        folder = state / f"scale-{number}"
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            yield folder
            return


async def supervise(name: str, app: App, settings: Settings, tell: Tell) -> None:
    """Run a supervisor of workers of the application of that name, until the process is told to stop."""
    rules = rules_of(settings)
    client = await connect(settings, wait=timedelta(seconds=10))
    await check_search_attributes(client)
    with own_folder(STATE) as folder, contextlib.ExitStack() as stack:

        def make(number: int) -> Child:
            return worker(name, log=folder / f"worker-{number}.log", environment=os.environ)

        serves = served(app, settings)
        check = WakeCheck(client, settings.task_queue, serves)
        supervisor = Supervisor(check.look, make, rules, tell, settings.shutdown_grace + STOP_PATIENCE)
        heard: str | None = settings.scale_socket if DEFAULT in serves else None
        try:
            # A delivery is for workflows: what comes of it for another worker is found in that one's queue.
            if heard is not None:
                stack.enter_context(listening(heard, supervisor.poked))
        except (SocketTaken, OSError) as error:
            logging.warning("deliveries are found by looking, every %g s: %s", _SHORTEST_PAUSE, error)
            heard = None
        _on_signals(supervisor)
        facts = {"pid": os.getpid(), "task_queue": settings.task_queue, "serves": list(serves), "app": name}
        tell("ready", **facts, socket=heard, min=rules.fewest, max=rules.most)
        async with showing(client, settings, app.registry.workers):
            await supervisor.run()
    tell("ended", exit_code=0)


def said(line: str) -> None:
    """Print it; where nobody reads any more go on: an error here would end all workers as a crash does."""
    with contextlib.suppress(OSError):
        print(line, flush=True)


def _on_signals(supervisor: Supervisor) -> None:
    is_told = False

    def told() -> None:
        nonlocal is_told
        if is_told:
            os._exit(1)  # its workers are tethered to it
        is_told = True
        supervisor.leave()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told)


def main() -> None:
    """The process. Exit code 2: something must be put right first, and one line says what."""
    parser = argparse.ArgumentParser(prog="python -m workers.supervisor", description="Keep as many workers as needed.")
    parser.add_argument("--app", help="module:attribute; TARRY_APP by default")
    parser.add_argument("--json", action="store_true", help="print one JSON object a line")
    arguments = parser.parse_args()
    tell = teller(said, _now, as_json=arguments.json)
    try:
        settings, name, app = begin("supervisor", arguments.app, "warning")
        asyncio.run(supervise(name, app, settings, counting(tell, process_meter())))
    except (LoadError, SettingsError, StoreError, ConnectError) as error:
        print(f"scale: {error}", file=sys.stderr)
        if arguments.json:
            tell("ended", exit_code=2)
        raise SystemExit(2) from None
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
