"""The threads that serve every driver: upkeep, subscriber, Sentinel monitor, observers."""
