"""The server with lowered limits keeps them to itself: others of the same process are as they are in use."""

from __future__ import annotations

from tarry import embedded
from tarry.embedded import EmbeddedServer


async def test_limits_of_the_lowered_server_are_no_other_ones(lowered_server: EmbeddedServer) -> None:
    assert lowered_server.pid is not None
    assert [flag for flag in embedded.DYNAMIC_CONFIG if flag.startswith("limit.")] == []
