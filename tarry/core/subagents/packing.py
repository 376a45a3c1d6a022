"""What a tree carries from run to run of its workflow, made small (spec §17.9). Pure.

Most of it are ids, names and times that repeat: deflated, it is an eighth.
"""

from __future__ import annotations

import base64
import zlib

from tarry.core.subagents.foreseen import ForeseeingTree


def packed(tree: ForeseeingTree) -> str:
    """The whole state as text."""
    return base64.b85encode(zlib.compress(tree.model_dump_json().encode())).decode()


def unpacked(text: str) -> ForeseeingTree:
    """The tree again."""
    return ForeseeingTree.model_validate_json(zlib.decompress(base64.b85decode(text)))
