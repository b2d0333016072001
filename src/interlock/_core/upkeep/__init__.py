"""What outlives a call: the session, renewal, garbage."""
