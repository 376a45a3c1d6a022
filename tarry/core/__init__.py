"""The rules, pure: stdlib and pydantic only; clock, ids and randomness come in as arguments."""
