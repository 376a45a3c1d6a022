"""Stages whose payloads are encrypted, and what can be seen of them without a key."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

from temporalio.client import Client

from tarry.app import App
from tarry.connect import converter_of
from tarry.embedded import EmbeddedServer
from tarry.settings import Settings
from tests.support.stage import Stage

VARIABLES = {
    f"TEST_KEY_{name.upper()}": base64.urlsafe_b64encode(name[:1].encode() * 32).decode() for name in ("old", "new")
}
"""Where the keys of tests are: `old` and `new`, to be set in the environment."""


def codec(active: str, *ids: str, clear: bool = False) -> dict[str, Any]:
    """Settings with the keys of these ids, by default the active one alone."""
    references = " ".join(f"{id}=env:TEST_KEY_{id.upper()}" for id in ids or (active,))
    return {"codec_keys": references, "codec_active": active, "codec_clear": clear}


async def with_settings(server: EmbeddedServer, on: Stage, app: App | None = None, **chosen: Any) -> Stage:
    """Another deploy of a stage: its queue and store, and these settings, as the processes of one would read them."""
    kept = on.settings.model_dump() | {"codec_keys": None, "codec_active": None, "codec_clear": False}
    settings = Settings(**(kept | chosen))
    client = await Client.connect(server.address, data_converter=converter_of(settings))
    return Stage(client, settings, app or on.app)


def files_with(text: str, *folders: Path) -> list[str]:
    """The files below these folders that hold a text, as it is."""
    files = sorted(file for folder in folders for file in folder.rglob("*") if file.is_file())
    return [file.name for file in files if text.encode() in file.read_bytes()]
