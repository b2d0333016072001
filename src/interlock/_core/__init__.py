"""The core: one id for one hold, garbage in place of undo, one queue.

Read in this order: `model.hold`, `model.effects`, `queue.places`, `locks.base`, `locks.release`,
`upkeep.garbage`, `upkeep.watchdog`, `upkeep.session`; then the Lua, `release.lua` first. The page
docs/explanation/architecture.md has the notions and the tables of states.
"""
