"""The wire of Redisson as a kit: a client in any language plays recorded sequences of calls.

After each call, the kit compares the client's answer, all keys on the server, and all messages with
those of Java's Redisson. `interlock conformance` runs it. The page on conformance has the protocol.
"""

from interlock.conformance.kit import Departure, Outcome, run

__all__ = ["Departure", "Outcome", "run"]
