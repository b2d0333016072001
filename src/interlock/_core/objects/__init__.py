"""What is no lock, on the parts of one."""
