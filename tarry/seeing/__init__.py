"""Seeing what runs: traces, metrics and structured logs (docs/observability.md, spec §24)."""
