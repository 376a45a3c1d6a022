"""The crash matrix: what a call of each replay policy comes to when its worker is killed at each point of its way."""
