"""What a driver needs of its process: clock, threads, forks, stacks, identity."""
