"""The shards themselves: in memory, and in Redis or Valkey."""
