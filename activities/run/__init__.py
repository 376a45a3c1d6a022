"""What a run asks of a model: its requests, what they show, and summaries."""
