"""Subagents on a host: the files that define and configure them (spec §17.20)."""
