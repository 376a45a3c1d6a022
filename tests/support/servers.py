"""The server programs that tests start."""

from __future__ import annotations

import sys
from pathlib import Path


def time_skipping_binary() -> str:
    """The Temporal test server, whose clock jumps over waits: `test_server_existing_path=` of the SDK's environment.

    Raises:
        FileNotFoundError: the extra `embedded` is not installed.
    """
    binary = Path(sys.executable).with_name("temporal-test-server")
    if not binary.is_file():
        raise FileNotFoundError(f"{binary} is missing: run `make venv`")
    return str(binary)
