"""`tarry.conversation`: the owner of a transcript, its inbox, its runs and what leaves it (spec §7)."""
