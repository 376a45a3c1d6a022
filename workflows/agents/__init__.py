"""`tarry.agents`: the tree of agents below one root, and the permits of their runs (spec §17)."""
