"""What the applications of drills share: a model that tells what it was sent, and lines that no crash can undo."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tarry.drills.kit.model import HoldingModel
from tarry.models import ModelRequest, ModelResponse


def record(file: str, **facts: Any) -> None:
    """Add a line to a file of the drill's folder."""
    with (Path(os.environ["DRILL_FOLDER"]) / file).open("a") as out:
        out.write(json.dumps(facts) + "\n")


class StoppingModel(HoldingModel):
    """Holds at points, and records each request before."""

    async def respond(self, request: ModelRequest, on_text: Callable[[str], None]) -> ModelResponse:
        """The script's answer."""
        record("requests", **request.model_dump(mode="json"))
        return await super().respond(request, on_text)
