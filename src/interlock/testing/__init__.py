"""What users may import in their own tests: a server, a simulator, a proxy that makes faults."""
