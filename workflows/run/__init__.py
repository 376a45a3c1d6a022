"""`tarry.generation`: one run, its model requests and the rounds of calls between them (spec §6)."""
