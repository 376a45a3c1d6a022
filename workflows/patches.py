"""Changes to what workflows command, each guarded so that what was begun before it still replays (spec §1.4)."""

from __future__ import annotations

DELIVERIES = "deliveries"
"""Tool calls judge plain signals that are not ours, where they ignored them before."""
