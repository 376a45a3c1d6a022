"""The activities: everything that touches the world. They never import the workflows."""
