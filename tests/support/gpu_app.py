"""An application of which one tool runs on a worker of a name: what worker processes of tests load."""

from __future__ import annotations

from tarry.app import App, Extension
from tarry.testing import ScriptedModel, call, say
from tarry.tools import tool

NAME = "tests.support.gpu_app:app"


@tool(worker="gpu", replay="safe")
def render(scene: str) -> str:
    """Render a scene."""
    return f"rendered {scene}"


app = App(
    model=ScriptedModel.for_each_input([call("render", scene="sea"), lambda request: say(request.messages[-1].text)]),
    extensions=[Extension("pictures", [render])],
)
