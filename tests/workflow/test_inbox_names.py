"""How a name that a proxy tells is read (spec §23.3)."""

from __future__ import annotations

from pathlib import Path

from tarry.embedded import EmbeddedServer
from tests.support.gating import Ledger, gated_app
from tests.support.inboxes import PROVEN, PROXY, caller
from tests.support.stage import idle_stage


async def test_a_name_of_a_proxy_is_read_as_utf_8_or_else_as_latin_1(server: EmbeddedServer, tmp_path: Path) -> None:
    names = ["José".encode(), "Élodie".encode(), "José".encode("latin-1"), "Ana\u200b".encode(), "Ana\x85".encode()]
    proof = [(name.encode(), value.encode()) for name, value in PROVEN.items()]
    async with idle_stage(server, gated_app(Ledger().edit), tmp_path) as on, caller(on, **PROXY) as visitor:
        pages = [await visitor.http.get("/inbox", headers=[*proof, (b"X-User", name)]) for name in names]

    assert [one.status_code for one in pages] == [200, 200, 200, 401, 401]
    named = zip(pages, ("José", "Élodie", "José"), strict=False)
    assert [f"Signed in as {name}" in one.text for one, name in named] == [True] * 3
