"""An events desk: what the drills with several turns operate, and what they ask of it."""
