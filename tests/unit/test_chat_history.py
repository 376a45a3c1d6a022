"""What was typed in a chat is kept for whoever typed it (docs/watching.md)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tarry.cli.chat_screen import _keep_private


@pytest.mark.parametrize("is_there", [True, False])
def test_history_of_a_chat_is_readable_by_its_owner_alone(tmp_path: Path, is_there: bool) -> None:
    history = tmp_path / "folder" / "history"
    if is_there:
        history.parent.mkdir()
        history.write_text("typed")
        history.chmod(0o644)

    _keep_private(history)

    assert history.stat().st_mode & 0o777 == 0o600
    assert history.read_text() == ("typed" if is_there else "")
