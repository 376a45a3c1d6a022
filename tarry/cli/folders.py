"""Folders of what a command leaves behind: one for each time it is given."""

from __future__ import annotations

import tempfile
from datetime import UTC, datetime
from pathlib import Path

from tarry.cli.exits import ExitCode, Problem


def new_folder(below: Path) -> Path:
    """A new folder, named by the time.

    Raises:
        Problem: none can be made there.
    """
    try:
        below.mkdir(parents=True, exist_ok=True)
        return Path(tempfile.mkdtemp(prefix=f"{datetime.now(UTC):%Y%m%d-%H%M%S}-", dir=below))
    except OSError as error:
        reason = f"{below} cannot be written ({error.strerror}): run this in a folder of yours"
        raise Problem(ExitCode.PUT_RIGHT, "no_folder", reason) from error
