"""The nouns: names, effects, holds, and the commands that differ in their hold alone."""
