"""The workflows: thin shells that turn pure machines' commands into Temporal calls.

One package for each noun; here what they share, and the two that are a file each.
"""
