"""`tarry link` and `tarry signal --by` from the shell, with no worker up (spec §23.4, §23.8)."""

from __future__ import annotations

from pathlib import Path

from tarry.core.people import person_of
from tarry.embedded import EmbeddedServer
from tarry.gates import approvals
from tarry.processes import environment_of
from tests.support.command import Command
from tests.support.gateways import CALLBACK_SECRETS, GATEWAY_URL
from tests.support.gating import Ledger, gated_app, start_gated
from tests.support.inboxes import caller, token_of
from tests.support.stage import Stage, idle_stage


def shell(on: Stage, server: EmbeddedServer, folder: Path, **more: str) -> Command:
    """The command beside a stage."""
    ours = {"TARRY_TASK_QUEUE": on.settings.task_queue, "TARRY_STORE": on.settings.store}
    return Command(folder, environment_of(server.address) | ours | more)


async def test_a_link_from_the_shell_is_pressed_and_a_name_goes_with_a_signal(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    secrets = {"TARRY_CALLBACK_SECRETS": CALLBACK_SECRETS, "TARRY_GATEWAY_URL": GATEWAY_URL}
    ledger = Ledger()
    async with idle_stage(server, gated_app(ledger.edit, approvals(lambda _: True)), tmp_path / "store") as on:
        async with on.worker():
            first, second = [await start_gated(on, "edit", path=path) for path in ("a", "b")]
            keys = [(await waiting.asks()).keys[0] for waiting in (first, second)]
        tarry, bare = shell(on, server, tmp_path, **secrets), shell(on, server, tmp_path)
        made = await tarry.run("link", first.id, "--allow", "--to", "Ana", "--json")
        sent = await tarry.run(
            "signal", second.id, keys[1].signal, keys[1].key, '{"allow": false}', "--by", "Ben", "--json"
        )
        wrong = [
            await tarry.run("link", first.id),
            await tarry.run("link", first.id, "--value", "{"),
            await tarry.run("link", first.id, "--allow", "--signal", "x"),
            await tarry.run("link", first.id, "--allow", "--signal", "x", "--key", "y"),
            await tarry.run("link", "nobody", "--allow"),
            await bare.run("link", first.id, "--allow"),
            await tarry.run("signal", second.id, "x", "y", "1", "--by", " "),
        ]
        path = made.json["url"].removeprefix(GATEWAY_URL)
        async with caller(on, inbox_tokens=None) as visitor:
            page = await visitor.get(path)
            pressed = await visitor.post(path, token_of(page), {})
            async with on.worker():
                allowed, denied = await first.ends(), await second.ends()

    assert ("Kept by the server" in pressed.text, person_of(sent.json["delivery_id"])) == (True, "Ben")
    assert [one.code for one in wrong] == [2, 2, 2, 1, 1, 2, 2]
    assert "TARRY_GATEWAY_URL" in wrong[5].err
    assert all(one.err.count("\n") == 1 for one in wrong)
    assert "Approved by Ana" in allowed.text
    assert (denied.code, len(ledger.runs)) == ("denied", 1)
