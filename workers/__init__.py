"""The processes: workers and what stands beside them, started as `python -m workers.…`.

No process starts while another installed package answers to one of our plain top-level names: it would run that
package's code in place of ours.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

_ROOT = Path(__file__).resolve().parent.parent
_NAMES = ("signals", "workflows", "activities", "workers")


def refuse_foreign_packages() -> None:
    """End the process with one line and exit code 2 when a name of ours leads to another package."""
    for name in _NAMES:
        spec = find_spec(name)
        places = [Path(place).resolve() for place in spec.submodule_search_locations or ()] if spec else []
        if _ROOT / name not in places:
            found = f"to {places[0]}" if places else "nowhere"
            print(f"the name `{name}` leads {found}, not to {_ROOT / name}: start from {_ROOT}", file=sys.stderr)
            sys.exit(2)


refuse_foreign_packages()
