"""Coding tools, and the environments that they work in (docs/coding.md)."""

from tarry.coding.extension import TOOLS, coding
from tarry.coding.finding import find, grep, ls
from tarry.coding.local import LocalDirectory, local
from tarry.coding.reading import read
from tarry.coding.sandbox import SandboxedDirectory, sandboxed
from tarry.coding.shell import bash
from tarry.coding.writing import edit, write
from tarry.environment import Environment, EnvironmentFactory, Exit, FileInfo, NoEnvironment, OutsideRoot, Place

__all__ = [
    "TOOLS",
    "Environment",
    "EnvironmentFactory",
    "Exit",
    "FileInfo",
    "LocalDirectory",
    "NoEnvironment",
    "OutsideRoot",
    "Place",
    "SandboxedDirectory",
    "bash",
    "coding",
    "edit",
    "find",
    "grep",
    "local",
    "ls",
    "read",
    "sandboxed",
    "write",
]
