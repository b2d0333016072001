"""What performs the core's effects: threads, asyncio, and the renewal thread that both share."""
