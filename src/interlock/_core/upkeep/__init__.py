"""What outlives one call: the session of a client, renewal, and clean-up."""
