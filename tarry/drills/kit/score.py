"""The score of a matrix: effects that happened twice, by replay policy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

from tarry.drills.kit.cell import Cell, Policy

POLICIES: tuple[Policy, ...] = get_args(Policy)


def duplicates(matrix: Sequence[Cell]) -> dict[Policy, int]:
    """Effects beyond the first of their call, under each policy over all cells."""
    return {policy: sum(cell.duplicates for cell in matrix if cell.policy == policy) for policy in POLICIES}
