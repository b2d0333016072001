"""The mistakes that no suite may let live, by number: each is a change of today's code.

The numbers are those of the promises that the mistakes break; `GROUPS` names them.
"""

from __future__ import annotations

from dataclasses import dataclass

from faultlab.mistakes import Body, Call, Change, Condition, Mistake, Result, Value


@dataclass(frozen=True, slots=True)
class Group:
    """What several mistakes have in common.

    Attributes:
        what: The mistake, by its meaning.
        tests: The files and folders that are asked, in this order.
        left_out: Why it has no mistakes, or not all of them; empty if it has.
    """

    what: str
    tests: str
    left_out: str = ""


@dataclass(frozen=True, slots=True)
class Mutant:
    """One mistake.

    Attributes:
        number: Of its group.
        name: What the library does wrong.
        mistake: What is changed.
    """

    number: int
    name: str
    mistake: Mistake


_SIM = "core/test_simulations.py"
_PERMITS = "semaphore/test_permits_started.py"
_OWNERS = "objects/test_owners.py objects/test_lock_likes.py lock/test_lock_owners.py"
_HOLDS = "objects/test_holds_and_losses.py lock/test_lock_holds.py"
_ROOM = "lock/test_lock_waiting_room.py"
_ROOMS = "lock/test_waiting_rooms.py"
_CORE = "not before the new core: "

GROUPS = {
    0: Group("a lock has two holders, or one for ever", f"{_OWNERS} {_HOLDS} {_SIM}"),
    1: Group(
        "a number is used for a second hold",
        f"objects/test_lost_replies.py objects/test_blocks.py faults/test_fault_late_copies.py "
        f"faults/test_fault_late_grants.py {_SIM}",
    ),
    2: Group("validity counts from the reply", f"{_SIM} faults/test_fault_replies.py"),
    3: Group(
        "a renewal without an answer prolongs the validity",
        "faults/test_fault_outage.py faults/test_fault_renewal.py",
    ),
    4: Group(
        "a late or repeated try makes a hold that nobody releases",
        f"faults/test_fault_late_grants.py faults/test_fault_replies.py {_SIM}",
    ),
    5: Group(
        "a hold that was given up is renewed on",
        f"objects/test_cancelled.py lock/test_lock_cancel.py {_OWNERS}",
    ),
    6: Group(
        "a second signal stops the undo",
        "lock/test_lock_cancel.py links/test_link_signals.py lock/test_lock_tasks.py "
        "lock/test_lock_threads.py core/test_interruption_sweep.py",
    ),
    7: Group(
        "what Python dropped, or a thread or task that ended, keeps its hold",
        "drivers/test_unclaimed.py lock/test_lock_threads.py lock/test_lock_tasks.py "
        f"lock/test_lock_ends.py {_HOLDS}",
    ),
    8: Group(
        "entries: one after a loss succeeds, an end takes another's, the last is not sent",
        f"{_OWNERS} {_HOLDS} {_SIM}",
    ),
    9: Group("a forked child uses what its parent has", "lock/test_lock_processes.py"),
    10: Group(
        "closing leaves a hold, or ends another client's",
        "lock/test_lock_close.py lock/test_lock_processes.py",
    ),
    11: Group(
        "leases: shortened, kept whole, valid twice",
        f"{_OWNERS} {_HOLDS} objects/test_tokens_and_tickets.py hosts/test_hand_over.py faces/test_decorators.py "
        "core/test_transfer.py",
    ),
    12: Group(
        "a composite counts what it does not have, or keeps what it may not",
        "objects/test_parts.py composite/test_multi_lock.py composite/test_red_lock.py "
        "composite/test_red_faults.py "
        "composite/test_composite_crowds.py composite/test_composite_simulated.py",
        "an answer that came after its validity makes no hold at all, which is a mistake of the "
        "second group: to look at it once more matters for leases of milliseconds only.",
    ),
    13: Group(
        "a release reports a loss that is none, or none that is",
        f"{_HOLDS} faults/test_fault_outage.py faults/test_fault_replies.py",
    ),
    14: Group(
        "a late release is sent once, for ever, or by a caller that waits",
        "faults/test_fault_late_grants.py faults/test_fault_late_copies.py "
        "faults/test_fault_outage.py core/test_cleanup.py core/test_late_grants.py",
    ),
    15: Group(
        "the last in line is first, or a newcomer passes those who stand",
        f"objects/test_queues.py {_ROOM} {_ROOMS} fair/test_fair_order.py "
        f"fair/test_fair_simulated.py {_SIM}",
    ),
    16: Group(
        "who stands and finds the lock free takes it",
        "",
        f"{_CORE}today a client that stands may take a lock that it finds free.",
    ),
    17: Group("a release leaves the former holder", f"lock/test_lock_grant.py {_ROOM} {_SIM}"),
    18: Group(
        "a waiter starts with a message from before its refusal",
        f"lock/test_lock_grant.py {_SIM}",
        f"{_CORE}today no message names the server's run, but one from its future is not believed.",
    ),
    19: Group("a grant counts from the arrival of its message", f"{_SIM} {_PERMITS}"),
    20: Group(
        "a grant is believed by another one, or of the wrong kind",
        f"lock/test_lock_grant.py {_SIM} {_PERMITS}",
        f"{_CORE}today a grant for an unknown number wakes the first one here, and ends by itself; "
        "and it is allowed to tell the releaser's own next by message.",
    ),
    21: Group(
        "one that does not listen is next, or keeps its place",
        f"{_ROOMS} {_ROOM}",
        f"{_CORE}today there are no marks.",
    ),
    22: Group(
        "more permits are granted than fit, or one twice",
        "objects/test_permits.py semaphore/test_semaphore_plain.py "
        "semaphore/test_semaphore_leased.py "
        "semaphore/test_semaphore_waiting_room.py semaphore/test_leased_queue.py "
        f"semaphore/test_semaphore_queue.py {_PERMITS}",
    ),
    23: Group(
        "a fenced grant has an older token",
        f"objects/test_tokens_and_tickets.py fenced/test_fenced_token.py {_SIM}",
    ),
    24: Group("a grant or a hold is not prolonged", f"{_HOLDS} lock/test_lock_grant.py {_SIM}"),
    25: Group(
        "a cancelled waiter keeps its place, or the lock",
        f"objects/test_cancelled.py objects/test_queues.py lock/test_lock_cancel.py {_ROOM} "
        f"lock/test_lock_tasks.py {_SIM}",
    ),
    26: Group(
        "only a message wakes, or none does", f"faults/test_fault_messages.py {_ROOM} {_SIM}"
    ),
    27: Group(
        "each waiter of a client looks, or the queue ends while one waits",
        f"objects/test_queues.py lock/test_lock_crowds.py {_ROOM} lock/test_lock_passing.py",
    ),
    28: Group(
        "one that only listens never gets the lock, or a grant has another lease",
        f"{_ROOM} lock/test_lock_passing.py lock/test_lock_grant.py {_SIM}",
    ),
    29: Group("a forced release leaves a mark", "", f"{_CORE}today there are no marks."),
    30: Group(
        "a release that the server refuses leaves the lock held",
        "faults/test_fault_memory.py core/test_scripts.py",
        f"{_CORE}today a user who may not publish cannot release, and is told so.",
    ),
    31: Group(
        "readers and writers: together, past each other, or kept out",
        "objects/test_sharing.py read_write/test_read_write_rules.py read_write/test_read_write_waiting_room.py "
        f"read_write/test_read_write_leases.py read_write/test_read_write_simulated.py {_SIM}",
    ),
    32: Group(
        "a notification wakes nobody, or two, or is swallowed; a wait ends without the lock",
        "objects/test_conditions.py condition/test_condition.py condition/test_condition_simulated.py",
    ),
    33: Group(
        "a job or task enters another one's hold",
        f"{_OWNERS} lock/test_lock_tasks.py",
    ),
    34: Group(
        "an older context enters the hold",
        "objects/test_owners.py",
    ),
    35: Group("a release by another one ends a hold", f"{_OWNERS} {_HOLDS}"),
    36: Group(
        "a block that is left elsewhere does not release, or releases another's",
        "objects/test_blocks.py lock/test_lock_blocks.py",
    ),
    37: Group(
        "a thread that runs a loop waits for a task of it for ever",
        "objects/test_owners.py",
    ),
    38: Group(
        "a truth test of what was not acquired is true",
        "objects/test_owners.py faces/test_face_messages.py faces/test_first_hour.py",
    ),
    39: Group(
        "the thread that keeps time waits for a node",
        "faults/test_fault_name_server.py cluster/test_cluster_renewal.py",
    ),
    40: Group(
        "no answer is taken for a refusal, or the other way round",
        f"faults/test_fault_outage.py faults/test_fault_renewal.py {_HOLDS} {_SIM}",
    ),
    41: Group(
        "a script that a moving slot stopped is an error, or counts as not sent",
        "cluster/test_cluster_half_way.py cluster/test_cluster_moves.py",
    ),
    42: Group(
        "a reply is read by the wrong call",
        "faults/test_fault_replies.py faults/test_fault_proxy.py faults/test_fault_outage.py",
    ),
    43: Group("credentials are not asked for again", "links/test_login.py"),
    44: Group(
        "a failover starts no renewals, or repeats a token",
        "sentinel/test_sentinel_failover.py sentinel/test_sentinel_epoch.py "
        "cluster/test_cluster_tokens.py",
    ),
    45: Group("one of those who hear of a loss does not", f"{_HOLDS} lock/test_lock_tasks.py"),
    46: Group(
        "a cancelled call waits for an answer",
        "lock/test_lock_cancel.py lock/test_lock_tasks.py faults/test_fault_outage.py",
    ),
}


def _m(number: int, name: str, where: str, change: Change) -> Mutant:
    return Mutant(number, name, Mistake(where, change))


_SILENT = Call("PUBLISH", "redis.call('exists', KEYS[1])")

MUTANTS = (
    _m(0, "an acquire takes what is taken", "lock_acquire",
       Condition("free hexists lock holder 0", "false")),
    _m(0, "one who waits takes what is taken", "parts/reach_depth",
       Condition("ours free", "$0 and depth ~= '1'")),
    _m(0, "an acquire sets no lease", "lock_acquire", Call("pexpire", "redis.call('persist', $1)")),
    _m(0, "one who waited sets no lease", "parts/reach_depth",
       Call("pexpire", "redis.call('persist', $1)")),
    _m(0, "a claim is anybody's", "parts/reach_depth",
       Value("claimed", "client and not free and not ours")),
    _m(1, "a release without an answer keeps the number", "locks.lock_base:Release.finish",
       Condition("depth 0 call unknown hold unanswered", "depth < 0")),
    _m(1, "an undo keeps the number", "locks.lock_base:renumber_owner", Body("pass")),
    _m(1, "an abandoned hold keeps the number", "model.holds:Hold.keep_holder_unique",
       Call("renumber", "0")),
    _m(2, "a grant counts from its reply", "model.holds:Hold.grant",
       Value("valid_until", "$0 - sent_at + now")),
    _m(2, "a renewal counts from its reply, and more", "upkeep.watchdog:Watchdog._note",
       Call("extend_validity", "hold.extend_validity($1 + 5, $2)")),
    _m(2, "a grant that came too late counts", "model.holds:Hold.grant",
       Condition("now until", "now >= until + 9")),
    _m(3, "a renewal without an answer counts", "upkeep.watchdog:Watchdog.renew",
       Call("append",
            "[result.failures.append($1), *(hold.extend_validity(now, lease) for hold in group)]",
            which=0)),
    _m(4, "late grants of a hold are forgotten", "locks.lock_base:end_late_grants",
       Condition("hold unanswered", "$0 > 2")),
    _m(4, "late grants of a try in vain are forgotten", "locks.lock_base:undo_acquire",
       Call("late_grants", "hold.offered")),
    _m(4, "the first late grant that is found is all", "upkeep.cleanup:CleanupQueue.carry",
       Value("late", "0 if reply else entry.late")),
    _m(4, "an acquire is not undone", "locks.lock_base:undo_acquire", Call("bring_down", "()")),
    _m(5, "an undone hold stays", "locks.lock_base:undo_acquire", Call("end", "None")),
    _m(5, "an ended hold stays in the table", "model.holds:Holds._forget",
       Condition("self table hold table_key", "False")),
    _m(6, "a task's undo is cancelled, too", "_drivers.aio:AsyncDriver._finish",
       Call("finish", "self.run(op, error)")),
    _m(6, "a thread's undo is tried once", "_drivers.threads:ThreadDriver.undo",
       Call("range", "range(1)")),
    _m(7, "a dropped block keeps its hold", "model.holds:HoldUsers.abandoned", Result("False")),
    _m(7, "a dropped block leaves its hold to its task", "model.holds:HoldUsers.hand",
       Condition("alone self depth 1", "False")),
    _m(7, "a task that ended keeps its hold", "_drivers.tasks:_has_ended", Result("False")),
    _m(7, "a thread that ended keeps its hold", "_drivers.flow:ThreadOwner.__init__",
       Value("reference", "lambda: self")),
    _m(8, "an entry after a loss begins anew", "locks.lock_base:LockBase.is_live",
       Condition("hold state LOST hold inside hold ran_out", "False")),
    _m(8, "an entry takes a free lock", "lock_acquire",
       Value("free", "redis.call('exists', lock) == 0")),
    _m(8, "an inner end frees the lock", "locks.lock_base:Release.begin",
       Call("kept_release", "core.release_script(hold, 0)")),
    _m(8, "the last end is not sent", "locks.lock_base:Release.begin",
       Call("kept_release", "core.release_script(hold, depth or 1)")),
    _m(8, "an entry adds", "lock_acquire", Call("hset", "redis.call('hincrby', $1, $2, $3)")),
    _m(8, "an entry of one who waited adds", "parts/reach_depth",
       Call("hset", "redis.call('hincrby', $1, $2, $3)", which=1)),
    _m(9, "a child does not notice", "_drivers.process.lifecycle:_after_fork", Body("pass")),
    _m(9, "a child keeps the holds", "upkeep.session:Session.become", Call("end", "None")),
    _m(9, "a child uses the connections", "_drivers.connected:ConnectedDriver.after_fork",
       Call("_forget_connections", "None")),
    _m(10, "closing releases nothing", "upkeep.session:Session.releases_on_close",
       Value("releases", "[]")),
    _m(10, "closing forgets what is under way", "upkeep.session:Session.releases_on_close",
       Condition("hold state HELD ENDING late_grants", "hold.state is HELD")),
    _m(10, "clients of one configuration have one id", "_drivers.process.identity:new_client_id",
       Body("return given or 'client'")),
    _m(11, "a shorter lease shortens", "lock_renew",
       Condition("kept i 1 pttl lock tonumber lease", "kept[i] == 1")),
    _m(11, "a shorter lease is believed", "model.holds:HoldLease.extend_validity",
       Condition("until self valid_until", "True")),
    _m(11, "a least time keeps the whole lease", "asyncio.hold:Hold._leave_locked",
       Call("leave_locked", "transfer.leave_locked(self._hold, self._hold.lease)")),
    _m(11, "a least time keeps nothing", "asyncio.decorators:Single._end", Value("rest", "0")),
    _m(11, "a ticket leaves the former holder", "lock_give",
       Call("hdel", "redis.call('hexists', $1, $2)")),
    _m(11, "a hold is renewed beside its ticket", "locks.transfer:_give_to",
       Call("released", "None")),
    _m(12, "a red lock keeps a minority", "locks.red_lock:RedLock._attempt",
       Call("_give_back", "()")),
    _m(12, "a multi lock keeps a part", "locks.multi_lock:MultiLock._obtain",
       Call("_give_back", "()")),
    _m(12, "a lost part is no loss", "locks.composite:CompositeHold.lost",
       Result("all(hold.lost(now) for hold in self.members)")),
    _m(12, "a part that is valid is enough", "locks.composite:CompositeHold.valid",
       Result("any(hold.valid(now) for hold in self.members)")),
    _m(12, "a minority is enough", "locks.red_lock:RedLock.__init__",
       Call("__init__", "super().__init__($1, len(members) // 2)")),
    _m(12, "drift is not subtracted", "model.holds:Hold.grant",
       Value("valid_until", "sent_at + self.lease")),
    _m(13, "a hold is renewed while it is released", "model.holds:Hold.begin_release",
       Value("state", "self.state")),
    _m(13, "a release of what is gone tells nothing", "locks.lock_base:Release.finish",
       Value("gone", "False")),
    _m(13, "a release after the lease tells nothing", "locks.lock_base:_end_lost",
       Body("session.holds.end(hold)\nreturn\nyield")),
    _m(13, "a release that takes long tells of a loss", "locks.lock_base:Release.done",
       Condition("answer hold unanswered",
                 "$0 or self._session.clock() >= hold.valid_until and not setattr(self, '_found', 0)"
                 )),
    _m(14, "a late release is sent once", "upkeep.cleanup:CleanupQueue.carry",
       Condition("now entry effect until unanswered entry late 0", "True")),
    _m(14, "a late release is sent for ever", "upkeep.cleanup:CleanupQueue.carry",
       Condition("now entry effect until unanswered entry late 0",
            "not (unanswered or entry.late > 0)")),
    _m(14, "a caller waits for a late release", "upkeep.session:Session.clean_up",
       Value("prompt", "True")),
    _m(15, "the last in line is first", "parts/grant",
       Call("zrange", "redis.pcall('zrange', queue, '-1', '-1', 'withscores')", which=1)),
    _m(15, "a newcomer passes those who stand", "parts/reach_depth",
       Condition("client free join_others me", "false")),
    _m(15, "a newcomer passes those who wait here", "locks.lock_base:LockBase.may_try_first",
       Body("return True")),
    _m(15, "a fair lock is for anybody", "fair_lock_acquire", Value("turn", "free")),
    _m(15, "a fair lock serves the last who came", "fair_lock_acquire",
       Call("rpush", "redis.call('lpush', $1, $2) * 0 + 1")),
    _m(17, "a release to the next leaves the former holder", "parts/give_on",
       Call("hdel", "redis.call('hexists', $1, $2)")),
    _m(17, "a local pass leaves the former holder", "lock_pass_locally",
       Call("hdel", "redis.call('hexists', $1, $2)")),
    _m(18, "a claim of an earlier wait is believed", "model.holds:Hold.claim_end",
       Condition("passed 0 begun now", "False")),
    _m(19, "a claim counts from its arrival", "model.holds:Hold.claim_end",
       Result("valid_until(now, CLAIM)")),
    _m(19, "a claim is believed too long", "model.holds:Hold.claim_end", Result("$0 + 3 * CLAIM")),
    _m(19, "a claim counts as the lease", "model.holds:Hold.start",
       Value("valid_until", "valid_until(now, self.lease)")),
    _m(20, "a claim of another number is believed", "queue.waiter:Claim.is_for",
       Call("endswith", "True")),
    _m(20, "a claim is written for nobody", "parts/give_on",
       Call("hset", "redis.call('hset', $1, string.match($2, '^[^:]*') .. ':0', $3)", which=1)),
    _m(20, "a writer is given a claim of its client", "parts/give_on",
       Call("hset",
            "redis.call('hset', lock, 'mode', 'write', string.match(field, '^[^:]*')"
            " .. ':0:write', '1')",
            which=0)),
    _m(20, "a writer is given a lock to read", "parts/give_on",
       Call("hset", "redis.call('hset', lock, 'mode', 'read', field, '1')", which=0)),
    _m(20, "one who needs a token is given none", "parts/give_on", Value("news", "''", which=0)),
    _m(21, "one that does not listen is next", "parts/grant",
       Condition("matters listens member", "false")),
    _m(21, "one that does not listen keeps its place", "parts/tidy",
       Condition("client heard member false", "false")),
    _m(21, "nobody looks after a grant", "queue.grant_looks:GrantLooks.given", Body("pass")),
    _m(22, "permits run below zero", "semaphore_acquire", Value("enough", "free >= 0", which=0)),
    _m(22, "leased permits run below zero", "leased_semaphore_acquire",
       Value("enough", "free >= -1", which=0)),
    _m(22, "one is told of more than there are", "parts/grant", Condition("wants free", "false")),
    _m(22, "two are told of one permit", "parts/grant", Call("zadd", "tonumber('1')")),
    _m(22, "a permit is given under another id", "parts/claim_permits",
       Call("zadd", "redis.call('zadd', $1, $2, claim_of(member, 1))", which=0)),
    _m(22, "a permit that is given stays free", "parts/claim_permits",
       Call("decrby", "redis.call('exists', $1)")),
    _m(22, "a claim that there was is taken again", "parts/claim_permits",
       Value("added", "wanted_by(member)", which=1)),
    _m(22, "one that took its permit without its place is given another", "parts/claim_permits",
       Condition("id zscore leases raw", "false")),
    _m(22, "one that asks and was given a permit takes another", "leased_semaphore_acquire",
       Condition("wanted 1 zscore leases members", "false")),
    _m(22, "one that asks keeps a claim as it is", "leased_semaphore_acquire",
       Condition("held wanted 1 tonumber now CLAIM", "false")),
    _m(22, "a confirmation takes a permit that is gone", "leased_semaphore_renew",
       Condition("ends now", "$0 and ends > 0")),
    _m(23, "a token stays the same", "parts/draw_token",
       Call("incrby", "redis.call('incrby', $1, math.max(1 - last, 0))")),
    _m(23, "a small token is believed", "locks.fenced_lock:FencedLock._believes", Result("True")),
    _m(24, "the renewal thread leaves claims out", "upkeep.watchdog:Watchdog._sort",
       Condition("hold state HELD hold renewal None hold asked_by",
            "hold.state is HELD and hold.renewal is not None and not hold.asked_by")),
    _m(24, "the renewal thread renews too late", "upkeep.watchdog:Watchdog._sort",
       Condition("hold renew_at now", "hold.renew_at <= now - 60")),
    _m(24, "a renewal renews nothing", "lock_renew", Call("pexpire", "redis.call('pttl', $1)")),
    _m(24, "a confirmation takes what is free", "lock_renew",
       Call("hexists", "(redis.call('hset', $1, $2, '1') >= 0 and 1)")),
    _m(25, "one that gives up keeps its place", "queue.waiting:leave_queue",
       Condition("place None", "True")),
    _m(25, "one that is cancelled keeps what it was given", "locks.lock_base:LockBase.go_on",
       Call("_undo", "()", which=0)),
    _m(25, "one that is cancelled keeps its permit", "objects.semaphore:Taking.undo",
       Call("promptly", "iter(())")),
    _m(25, "one that is cancelled keeps its leased permit", "objects.leased_permits:TakingLeased.undo",
       Call("undo_acquire", "iter(())")),
    _m(25, "one that leaves stays the first", "queue.waiters:Waiters.leave",
       Value("front", "False")),
    _m(26, "a message wakes nobody", "parts/members", _SILENT),
    _m(26, "a release wakes nobody who only listens", "parts/give_on", _SILENT),
    _m(26, "nobody looks again", "upkeep.session:Session.poll_interval", Result("$0 * 60")),
    _m(26, "one acts on claims alone", "queue.waiting:wait_in_queue", Value("told", "claim")),
    _m(27, "each waiter looks", "queue.waiter:Waiter.__init__", Value("front", "True")),
    _m(27, "the queue ends", "parts/join", Call("pexpire", "redis.pcall('pexpire', $1, 300)")),
    _m(28, "the lock is never left to others", "parts/give_on",
       Condition("in_order others_listen left_to_others place", "true")),
    _m(28, "the lock is always left to others", "parts/give_on",
       Value("period", "now and math.huge")),
    _m(28, "a grant keeps the former lease", "parts/give_on",
       Call("pexpire", "redis.call('pttl', $1)")),
    _m(28, "what is given ends at once", "parts/give_on",
       Call("pexpire", "redis.call('pexpire', $1, 1)")),
    _m(28, "a local pass sets no lease", "lock_pass_locally",
       Call("pexpire", "redis.call('persist', $1)")),
    _m(30, "a full server refuses a release", "parts/go_down", Call("hdel", "tonumber('0')")),
    _m(31, "a writer enters beside a reader", "write_lock_acquire",
       Condition("longest 2", "longest < 3600000")),
    _m(31, "a reader enters beside a writer", "read_lock_acquire",
       Value("open", "$0 or mode == 'write'")),
    _m(31, "a reader passes a writer that waits", "read_lock_acquire",
       Condition("mode join_others client", "false")),
    _m(31, "a writer may not read", "read_lock_acquire",
       Value("open", "not mode and left == -2 or mode == 'read'")),
    _m(31, "a dead reader keeps writers out", "parts/longest_of_others",
       Condition("left 2", "false")),
    _m(31, "the last reader wakes no writer", "read_lock_release", _SILENT),
    _m(32, "a notification wakes nobody", "condition_notify", _SILENT),
    _m(32, "a notification wakes two", "condition_notify", Value("last", "count", which=1)),
    _m(32, "a notification is for the second", "condition_notify",
       Call("zrange", "redis.call('zrange', $1, 1, $3)")),
    _m(32, "one that is cancelled swallows it", "condition_leave", Condition("notified", "false")),
    _m(32, "a wait ends without the lock", "objects.condition:Condition._wait",
       Call("_acquire_again", "()")),
    _m(33, "all tasks are one owner", "_drivers.tasks:current_owner",
       Call("get", "next(iter(_owners.values()), None)")),
    _m(33, "a job enters what the one before it left", "_drivers.flow:_job", Result("None")),
    _m(34, "an older context enters", "_drivers.flow:ThreadOwner.has_any_of", Result("True")),
    _m(35, "whoever releases ends what there is", "locks.lock_base:LockBase.release",
       Value("hold", "next(iter(session.holds), None) or $0")),
    _m(35, "the server asks nobody who holds it", "parts/go_down",
       Condition("hexists lock holder 0", "false")),
    _m(36, "a block is its leaver's", "asyncio.lock:Lock._leave",
       Value("hold", "self._core.hold_of(current_owner())", which=0)),
    _m(36, "one who leaves by hand leaves the newest block", "_drivers.block:ByHand.leave",
       Value("chosen", "self._entered")),
    _m(37, "what only this thread could end is waited for",
       "_drivers.flow:ThreadOwner.refuse_vain_wait", Body("return None")),
    _m(38, "a block that was not entered is true", "asyncio.trying:Trying.__bool__",
       Body("return True")),
    _m(38, "what was not awaited is true", "_drivers.unawaited:Unawaited.__bool__", Body("return True")),
    _m(39, "the thread that keeps time asks itself", "_drivers.background.renewer:Renewer._work",
       Call("take", "(work(self._lane(node).connection) or True)", which=0)),
    _m(40, "no answer is a loss", "upkeep.watchdog:Watchdog.renew",
       Call("append",
            "lost.extend(self._note(group, [False] * len(group), lease, (now, until), result))",
            which=0)),
    _m(40, "a refusal is no loss", "upkeep.watchdog:Watchdog._note",
       Condition("hold state HELD", "False")),
    _m(40, "a renewal keeps what is another's", "lock_renew", Call("hexists", "1")),
    _m(41, "a moving slot is an error", "_links.replies:_unavailable",
       Result("(error := $0, setattr(error, 'transient', False))[0]")),
    _m(41, "a script that was stopped half way was not sent", "_links.replies:_unavailable",
       Result("(error := $0, setattr(error, 'sent', False))[0]")),
    _m(42, "a connection that owes a reply is used again", "_links.pool:NodePool.failed",
       Value("usable", "True", which=0)),
    _m(43, "credentials are asked for once", "_links.login:Login.turn",
       Condition("self _clock self _until", "False")),
    _m(43, "a provider that failed is asked no more", "_links.login:Login._answer_to",
       Call("pop", "None")),
    _m(44, "a failover starts no renewals", "_drivers.background.renewer:Renewer.move",
       Call("renew_now", "None")),
    _m(44, "a failover sets tokens back", "parts/draw_token",
       Condition("unit 0 new tells", "false")),
    _m(45, "on_lost is not called", "upkeep.session:Session.begin_loss", Call("call_user", "None")),
    _m(45, "lost is not set", "_drivers.lost_state:LostState.is_set", Result("False")),
    _m(45, "ensure raises nothing", "asyncio.hold:Hold.ensure", Body("return")),
    _m(45, "cancel_on_lost cancels nothing", "_drivers.aio:AsyncDriver.cancel_on_lost",
       Body("pass")),
    _m(46, "an undo waits for an answer", "upkeep.session:Session.clean_up",
       Value("deadline", "NEVER")),
)  # fmt: skip
