"""The objects that are no locks: semaphores, latch, event, condition, barrier, election."""
