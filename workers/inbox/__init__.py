"""The inbox: pages of the gateway on which people answer what waits for them (docs/inbox.md)."""
