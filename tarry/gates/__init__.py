"""Ready-made gates: extensions that make a call wait for a person, a time or a quota before it runs (spec §5).

Install any of them, in any order; all are asked again on every wake, from the first. docs/gates.md says how they work
together and how to write one.
"""

from tarry.gates.approvals import DECISION, Decision, Question, approvals
from tarry.gates.links import decision_links
from tarry.gates.quiet_hours import quiet_hours, quiet_until
from tarry.gates.quota import MemoryQuotas, QuotaStore, SqliteQuotas, quota

__all__ = [
    "DECISION",
    "Decision",
    "MemoryQuotas",
    "Question",
    "QuotaStore",
    "SqliteQuotas",
    "approvals",
    "decision_links",
    "quiet_hours",
    "quiet_until",
    "quota",
]
