"""Kafka-grade consumer groups for Redis Streams."""
