"""The activities: everything that touches the world. They never import the workflows.

One package for each noun, named as theirs are; here what they share, and what serves workflows of one file.
"""
