"""A task's code at work: its thread's `api`, its children, its outcome, and what its tokens say of deliveries."""
