"""The threads that serve every driver: renewal, subscription, observers."""
