"""`report`: what a child tells its parent while it works (spec §17.46)."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from tarry.api import ToolApi
from tarry.subagents.telling import Told, refusals_are_results
from tarry.tools import ToolResult, tool


@tool(replay="safe")
@refusals_are_results
async def report(
    message: Annotated[str, Field(description="What the agent that started you should know now")], api: ToolApi
) -> Told:
    """Tell the agent that started you something before you have ended. It reads it in its next turn, and is not woken.

    Your answer reaches it anyway: report only what it should not wait for.
    """
    if not message.strip():
        return ToolResult("there is nothing to report in it", is_error=True, details={"code": "invalid"})
    return ToolResult(f"{await api.agents.report(message)} will read it.")
