"""What a tree of agents orders, carried out in conversations."""
