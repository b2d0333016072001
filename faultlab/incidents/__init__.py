"""Play incidents on real servers with real processes, and check what operators are told."""
