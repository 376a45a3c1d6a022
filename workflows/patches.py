"""Changes to what workflows command, each guarded so that what was begun before it still replays (spec §1.4)."""

from __future__ import annotations

MAIL = "mail"
"""Conversations tell an open run that something is queued, where they left it to its end before."""
STEERS = "steers"
"""They tell it of a steer also where they have told it of a write."""
LATE_WATCHERS = "late-watchers"
"""Who asks a task to tell of its end while that is under way is told, too."""
NOTED_ENDS = "noted-ends"
"""The end of a run leaves an event in its conversation. Those whose input says so need no marker for it."""
BY_BOUNDARY = "by-boundary"
"""A final boundary may take several inputs, and notes of commits are writes. Not asked where the input says so."""
FOUND_BY_ACTIVITY = "found-by-activity"
"""Archived submissions are looked up by an ordinary activity, where a local one did it before."""
ROOM = "room"
"""A conversation that has taken in all that it may refuses plain signals too. Asked only then."""
