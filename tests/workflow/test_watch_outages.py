"""A watch outlives the server: what is away is told and waited for (spec §7.9)."""

from __future__ import annotations

from pathlib import Path

from tarry.core.live import LiveView
from tarry.embedded import EmbeddedServer, ServerOptions
from tarry.testing import ScriptedModel, call, say
from tests.support.held import HeldTool
from tests.support.stage import app_of, stage
from tests.support.watching import watching


def is_quiet(view: LiveView) -> bool:
    return view.run is None and bool(view.entries)


async def test_watch_goes_on_when_a_killed_server_is_back(tmp_path: Path) -> None:
    held = HeldTool(replay="safe")
    model = ScriptedModel.for_each_input([call("work", what="it"), say("done")])
    async with (
        EmbeddedServer(ServerOptions(database=tmp_path / "temporal.db")) as mortal,
        stage(mortal, app_of(model, held.tool), tmp_path / "store") as on,
    ):
        conversation = on.harness.conversation()
        submission = await conversation.submit("go")
        async with watching(conversation) as watch:
            await watch.shows(lambda view: view.run and view.run.calls and view.run.calls[0].output.text)
            await mortal.kill()
            away = await watch.shows(lambda view: view.contact == "no_server")
            assert [entry.kind for entry in away.entries][:1] == ["user"], "the last that is known stays"
            await mortal.start()
            held.go.set()
            await submission.wait()
            await watch.shows(lambda view: is_quiet(view) and view.contact == "up")

            await mortal.kill()
            await mortal.start()
            await (await conversation.submit("again")).wait()
            view = await watch.shows(lambda view: is_quiet(view) and [e.kind for e in view.entries].count("user") == 2)
            assert list(view.entries) == await conversation.transcript()
