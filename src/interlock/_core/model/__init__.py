"""The nouns of the core: names, holds, effects. They decide nothing about the order of waiters."""
