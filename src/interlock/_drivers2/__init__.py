"""What performs operations: over the links, and the owners and the process of `interlock._drivers`.

`upkeep` and `subscriber` are the threads of a client, `client` makes them; `threads`, `aio` and
`over_threads` (trio) perform effects, each in one interpreter.
"""
