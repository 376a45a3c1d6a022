"""What drills are made of."""
