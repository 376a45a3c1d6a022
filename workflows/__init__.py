"""The workflows: thin shells that turn pure machines' commands into Temporal calls."""
