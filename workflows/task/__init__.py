"""What a signal can be delivered to: `tarry.tool-call`, `tarry.durable-task`, and how both wait (spec §3, §4)."""
