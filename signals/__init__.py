"""The waiting core: what a task holds for the world outside. Pure."""

from signals.box import Box, BoxFull

__all__ = ["Box", "BoxFull"]
