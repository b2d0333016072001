"""What users may import in their own tests: the imitated server, and its pytest fixture."""
