"""Which guarded changes are due to be taken out: `python -m workers.patches`, or `make patches` (docs/deploying.md).

Nothing fails for it: a guard that stays costs a line of code, one that goes too early stops what was begun before.
"""

from __future__ import annotations

from datetime import UTC, date, datetime

from workflows.patches import PATCHES, Patch


def due(today: date) -> list[str]:
    """A line for each change whose end has come, with the command that tells whether its question may go."""
    return [_line(patch) for patch in PATCHES if patch.until <= today]


def _line(patch: Patch) -> str:
    types = ", ".join(f"'{name}'" for name in patch.types)
    query = f"WorkflowType IN ({types}) AND StartTime < '{patch.since}T00:00:00Z'"
    count = f'temporal workflow count --query "{query}"'
    return f"{patch.id} is due since {patch.until}: take it out when this counts 0: {count}"


def main() -> None:
    """Print them, or when the next one is."""
    lines = due(datetime.now(UTC).date())
    print("\n".join(lines) or f"nothing is due before {min(patch.until for patch in PATCHES)}")


if __name__ == "__main__":
    main()
