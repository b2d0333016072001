"""What a driver needs of its process: clock, threads, forks, identity."""
