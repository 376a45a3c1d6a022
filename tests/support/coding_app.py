"""A coding agent for drills: it runs the command lines, or writes the files, that it is told to."""

from __future__ import annotations

import os
from pathlib import Path

from tarry.app import App
from tarry.coding import coding, sandboxed
from tarry.coding.local import LocalDirectory
from tarry.environment import Environment, Place
from tarry.models import ModelRequest
from tarry.testing import Call, ScriptedModel, call, say
from tests.support.coding import is_sandbox_here


def act(request: ModelRequest) -> Call:
    """`bash <command>` runs it, `write <path> <content>` writes it."""
    verb, _, rest = request.messages[-1].text.partition(" ")
    if verb == "bash":
        return call("bash", command=rest)
    path, _, content = rest.partition(" ")
    return call("write", path=path, content=content)


def environment(place: Place) -> Environment:
    """A directory for each conversation."""
    root = Path(os.environ["DRILL_FOLDER"]) / place.conversation_id
    root.mkdir(exist_ok=True)
    return sandboxed(root)(place) if is_sandbox_here() else LocalDirectory(root)


app = App(model=ScriptedModel.for_each_input([act, say("done")]), extensions=[coding(environment)])
