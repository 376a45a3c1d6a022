"""What a conversation has done outside: pages and archives in the store, and messages that leave it."""
