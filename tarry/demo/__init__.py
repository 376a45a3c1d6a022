"""Demos: an agent, the tracker it works with, and the scenarios that kill its workers."""
