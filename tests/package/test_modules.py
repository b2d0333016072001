"""Each source module has one test module, and its place says which.

The rule: `src/interlock/a/b.py` is tested by `tests/a/test_b.py`. Leading underscores are dropped.
Both faces share `tests/faces`, because one is generated from the other. Modules beside
`interlock/__init__.py` have their tests in `tests/package`. Adapters of frameworks have them in
`tests/hosts`, and those that tell a monitoring system in `tests/monitoring`. `TESTED_BY` has the
exceptions: modules that do nothing a test can see alone, or whose behaviour is a folder of its
own. A new module gets a test module of its name.
"""

from __future__ import annotations

from pathlib import Path, PurePosixPath

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "interlock"
_CORE = ("model", "queue", "upkeep", "locks", "objects", "insight", "scripts")
FOLDERS = {
    ".": "package",
    "_core": "core",
    **{f"_core/{folder}": "core" for folder in _CORE},
    "_drivers": "drivers",
    "_drivers/background": "drivers",
    "_drivers/process": "drivers",
    "_links": "links",
    "_embedded": "embedded",
    "asyncio": "faces",
    "sync": "faces",
    "inspection": "operations",
}
"""Source folder -> test folder, where they have different names."""
HOSTS = {"celery", "django", "fastapi", "redis_py", "trio"}
"""Modules beside `interlock/__init__.py` that adapt a framework."""
MONITORING = {"exporter", "otel", "prometheus"}
"""Those that tell a monitoring system."""

TESTED_BY = {
    # Locks, where the behaviour is a folder and the core file is played by its simulated tests.
    "_core/locks/kept_commands.py": "core/test_repeating.py",
    "_core/locks/known_lock.py": "core/test_lock_base.py",
    "_core/locks/lock.py": "core/test_lock_base.py",
    "_core/queue/lines.py": "lock/test_lock_names_alike.py",
    "_core/queue/waiter.py": "core/test_waiter_states.py",
    "_core/model/readers.py": "links/test_touched_keys.py",
    "_core/queue/places.py": "core/test_waiters.py",
    "_core/queue/starting.py": "semaphore/test_permits_started.py",
    "_core/model/messages.py": "testing/test_strict.py",
    "_core/model/names.py": "check/test_rights.py",
    "_core/locks/doubt.py": "faults/test_fault_late_copies.py",
    "_core/locks/composite.py": "composite/test_composite_simulated.py",
    "_core/locks/multi_lock.py": "composite/test_multi_lock.py",
    "_core/locks/red_lock.py": "composite/test_red_lock.py",
    "_core/locks/together.py": "composite/test_together.py",
    "_core/objects/barrier.py": "barrier/test_barrier.py",
    "_core/objects/leased_waiters.py": "barrier/test_barrier_simulated.py",
    "_core/objects/condition.py": "condition/test_condition_simulated.py",
    "_core/objects/count_down_latch.py": "latch/test_latch_simulated.py",
    "_core/objects/event.py": "event/test_event_simulated.py",
    "_core/objects/election.py": "election/test_election.py",
    "_core/locks/ticket.py": "faces/test_ticket.py",
    "_core/locks/fair_lock.py": "fair/test_fair_simulated.py",
    "_core/locks/group_lock.py": "group/test_group_lock.py",
    "_core/objects/leased_semaphore.py": "semaphore/test_semaphore_core.py",
    "_core/objects/limited.py": "faces/test_limited.py",
    "_core/objects/lifetime.py": "semaphore/test_lifetimes.py",
    "_core/objects/limits.py": "semaphore/test_semaphore_set_up.py",
    "_core/objects/leased_permits.py": "semaphore/test_leased_queue.py",
    "_core/objects/numbered.py": "semaphore/test_semaphore_set_up.py",
    "_core/objects/permit_queue.py": "semaphore/test_leased_queue.py",
    "_core/objects/semaphore.py": "semaphore/test_semaphore_core.py",
    "_core/locks/read_write_lock.py": "read_write/test_read_write_simulated.py",
    "_core/locks/spin_lock.py": "spin/test_spin_lock.py",
    "_core/queue/policy.py": "core/test_passing_locally.py",
    "_core/model/foreign_text.py": "security/test_foreign_text.py",
    "_core/model/no_hold.py": "lock/test_lock_holds.py",
    "_core/model/replication.py": "replicas/test_replicas.py",
    "_core/insight/card.py": "operations/test_cards.py",
    "_core/locks/forced.py": "operations/test_release.py",
    "_core/insight/events.py": "observe/test_observe.py",
    "_core/insight/observing.py": "observe/test_observe.py",
    # Drivers, whose work is seen in the locks that they perform.
    "_drivers/aio.py": "lock/test_lock_tasks.py",
    "_drivers/aio_fan_out.py": "composite/test_composite_crowds.py",
    "_drivers/aio_tasks.py": "lock/test_lock_tasks.py",
    "_pyinstaller/hook-interlock.py": "hosts/test_frozen.py",
    "_drivers/fan_out.py": "composite/test_composite_crowds.py",
    "_drivers/background/change_watchers.py": "election/test_election.py",
    "_drivers/background/aio_change_watchers.py": "election/test_election.py",
    "inspection/beside.py": "operations/test_why.py",
    "asyncio/watch.py": "operations/test_watch.py",
    "_drivers/process/identity.py": "operations/test_cards.py",
    "_drivers/process/lifecycle.py": "lock/test_lock_close.py",
    "_drivers/background/log.py": "observe/test_observe_log.py",
    "_drivers/background/event_delivery.py": "observe/test_observe.py",
    "_drivers/background/renewer.py": "faults/test_fault_renewal.py",
    "_drivers/background/sentinel_monitor.py": "sentinel/test_sentinel_failover.py",
    "_drivers/background/subscriber.py": "faults/test_fault_messages.py",
    "_drivers/connected.py": "lock/test_lock_ends.py",
    "_drivers/lost_state.py": "lock/test_lock_holds.py",
    "_drivers/tasks.py": "lock/test_lock_tasks.py",
    "_drivers/threads.py": "lock/test_lock_threads.py",
    "_drivers/awaited.py": "lock/test_lock_blocks.py",
    "_drivers/awaited_block.py": "lock/test_lock_blocks.py",
    "_drivers/block.py": "lock/test_lock_blocks.py",
    "_drivers/blocking.py": "lock/test_lock_blocks.py",
    "_drivers/blocking_block.py": "lock/test_lock_blocks.py",
    "_drivers/trio.py": "hosts/test_trio.py",
    "_drivers/wakeup.py": "lock/test_lock_threads.py",
    # Connections, which are tested by what they do with a real server.
    "_links/batch_connection.py": "faults/test_fault_renewal.py",
    "_links/cluster.py": "cluster/test_cluster_connect.py",
    "_links/connection.py": "links/test_link_signals.py",
    "_links/dialling.py": "faults/test_fault_name_server.py",
    "_links/endpoint.py": "links/test_link_login.py",
    "_links/multiplexer.py": "links/test_pipeline.py",
    "_links/open_connections.py": "lock/test_lock_close.py",
    "_links/pool.py": "links/test_link_threads.py",
    "_links/redirection.py": "cluster/test_cluster_moves.py",
    "_links/redis_connections.py": "links/test_link_login.py",
    "_links/redis_client.py": "links/test_link_login.py",
    "_links/replies.py": "links/test_link_messages.py",
    "_links/sentinel.py": "sentinel/test_sentinel_access.py",
    "_links/sentinel_endpoint.py": "sentinel/test_sentinel_access.py",
    "_links/sentinel_origin.py": "sentinel/test_sentinel_failover.py",
    "_links/shared_connection.py": "drivers/test_taking_turns.py",
    "_links/topology.py": "cluster/test_cluster_connect.py",
    "_links/wait_command.py": "replicas/test_replicas.py",
    "_links/wait_connection.py": "replicas/test_replicas.py",
    # The faces hold no logic; each is tested with its kind of lock.
    "asyncio/barrier.py": "barrier/test_barrier.py",
    "asyncio/client.py": "lock/test_lock_input.py",
    "asyncio/composite_lock.py": "composite/test_composite_input.py",
    "asyncio/condition.py": "condition/test_condition.py",
    "asyncio/count_down_latch.py": "latch/test_latch.py",
    "asyncio/election.py": "election/test_election.py",
    "asyncio/event.py": "event/test_event.py",
    "asyncio/hold.py": "lock/test_lock_holds.py",
    "asyncio/leased_semaphore.py": "semaphore/test_semaphore_leased.py",
    "asyncio/lock.py": "lock/test_lock_holds.py",
    "asyncio/read_write_lock.py": "read_write/test_read_write_rules.py",
    "asyncio/redis_py.py": "hosts/test_redis_py.py",
    "asyncio/semaphore.py": "semaphore/test_semaphore_plain.py",
    "_misuse.py": "faces/test_first_hour_messages.py",
    "fencing.py": "fencing/test_fencing_redis.py",
    "observe.py": "observe/test_observe.py",
    "options.py": "lock/test_lock_input.py",
    # Checks, commands and adapters, which are tested as users call them.
    "check/collect.py": "check/test_check_servers.py",
    "check/data_rules.py": "check/test_rules.py",
    "check/examine.py": "check/test_check_servers.py",
    "check/report.py": "cli/test_doctor.py",
    "cli/renew.py": "cli/test_acquire.py",
    "cli/ticket_file.py": "cli/test_acquire.py",
    "cli/ticket_status.py": "cli/test_acquire.py",
    "cli/deadlocks.py": "operations/test_deadlocks.py",
    "cli/console.py": "monitoring/test_console.py",
    "console/app.py": "monitoring/test_console_security.py",
    "console/graph.py": "monitoring/test_console.py",
    "console/reading.py": "monitoring/test_console.py",
    "inspection/server_facts.py": "monitoring/test_late.py",
    "cli/exporter.py": "monitoring/test_exporter.py",
    "cli/scrapes.py": "monitoring/test_exporter.py",
    "cli/listening.py": "monitoring/test_exporter.py",
    "cli/reading.py": "operations/test_reader.py",
    "cli/release.py": "operations/test_release.py",
    "cli/show.py": "operations/test_release.py",
    "cli/top.py": "operations/test_reader.py",
    "_core/insight/forced_note.py": "operations/test_release.py",
    "cli/launch.py": "cli/test_cli_job.py",
    "cli/locks.py": "cli/test_cli_modes.py",
    "cli/locks_list.py": "operations/test_reader.py",
    "inspection/face.py": "operations/test_reader.py",
    "inspection/info.py": "operations/test_reader.py",
    "cli/why.py": "operations/test_why.py",
    "inspection/words.py": "operations/test_dead_holders.py",
    "_core/insight/connection_name.py": "operations/test_dead_holders.py",
    "inspection/lock_reply.py": "operations/test_reader.py",
    "inspection/pattern.py": "operations/test_reader.py",
    "inspection/search.py": "operations/test_reader.py",
    "inspection/listeners.py": "operations/test_reader.py",
    "inspection/service.py": "operations/test_reader.py",
    "inspection/card_reader.py": "operations/test_cards.py",
    # The model of Redis: one grammar of commands is held against a real server.
    "testing/_model_generic.py": "testing/test_redis_model.py",
    "testing/_model_hashes.py": "testing/test_redis_model.py",
    "testing/_model_keyspace.py": "testing/test_redis_model.py",
    "testing/_model_lists.py": "testing/test_redis_model.py",
    "testing/_model_strings.py": "testing/test_redis_model.py",
    "testing/_model_zsets.py": "testing/test_redis_model.py",
}
"""Source module -> the one test module that tests it, below `tests`."""


def sources() -> list[str]:
    """Return the source modules that can have tests, relative to the package."""
    found = sorted(str(path.relative_to(SOURCE)) for path in SOURCE.rglob("*.py"))
    bare = ("__init__.py", "__main__.py", "_version.py")
    return [name for name in found if PurePosixPath(name).name not in bare]


def own_test(name: str) -> str:
    """Return the test module of its own name that *name* has by the rule, below `tests`."""
    path = PurePosixPath(name)
    folder = FOLDERS.get(str(path.parent), str(path.parent))
    if folder == "package" and path.stem in HOSTS:
        folder = "hosts"
    if folder == "package" and path.stem in MONITORING:
        folder = "monitoring"
    if str(path.parent) == "_core/scripts":
        return "core/test_scripts.py"  # each constructor is held against its Lua text there
    return f"{folder}/test_{path.stem.lstrip('_')}.py"


def test_the_rule_knows_both_faces_and_every_folder() -> None:
    """The rule drops underscores, and takes the generated face with the one it is made from."""
    assert own_test("_links/slots.py") == "links/test_slots.py"
    assert own_test("sync/lock.py") == own_test("asyncio/lock.py") == "faces/test_lock.py"
    assert own_test("celery.py") == "hosts/test_celery.py"


@pytest.mark.parametrize("name", sources())
def test_a_source_module_has_one_test_module(name: str) -> None:
    """A module has a test module of its name, or `TESTED_BY` names another; never both."""
    original = name.replace("sync/", "asyncio/", 1) if name.startswith("sync/") else name
    own, other = own_test(name), TESTED_BY.get(original)
    there = (ROOT / "tests" / own).is_file()
    if other is None:
        assert there, f"write tests/{own}, or say in TESTED_BY what tests {name}"
    else:
        assert not there, f"tests/{own} exists: take {name} out of TESTED_BY"
        assert (ROOT / "tests" / other).is_file(), f"{name}: there is no tests/{other}"


def test_no_exception_outlives_its_module() -> None:
    """`TESTED_BY` names source modules that exist."""
    assert set(TESTED_BY) <= set(sources())
