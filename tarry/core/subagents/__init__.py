"""Subagents: the rules of a tree of agents under one root conversation (spec §17). Pure."""
