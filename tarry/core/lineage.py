"""Whose entries a fork begins with.

Pure.
"""

from __future__ import annotations

from pydantic import Field

from tarry.core.messages import Frozen

PARENT_MEMO = "tarry.parent"
"""The memo by which a fork names its parent, so that lists know it with no worker up."""


class Parent(Frozen):
    """The conversation that a fork shares entries with, and the last one of these: `at`, counted from 0."""

    conversation_id: str
    at: int
    nonce: str = Field(default="", description="of that conversation: another one may get its id later")
    chosen: str = Field(default="", description="digest of the choices that replaced the parent's; empty: none did")
