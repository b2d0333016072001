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


_SIM = "core/test_simulated.py"
_PERMITS = "core/test_permits.py"
_OWNERS = "objects/test_owners.py objects/test_lock_likes.py"
_HOLDS = "objects/test_holds_and_losses.py"
_LOCKS = (
    "core/test_plain_lock.py core/test_simulated.py core/test_line.py core/test_breaking.py "
    "core/test_permits.py"
)

GROUPS = {
    0: Group("a lock has two holders, or one for ever", f"{_OWNERS} {_HOLDS} {_SIM}"),
    1: Group(
        "a number is used for a second hold",
        "objects/test_lost_replies.py objects/test_blocks.py faults/test_fault_late_copies.py "
        f"{_SIM}",
    ),
    2: Group(
        "validity counts from the reply",
        f"objects/test_lost_replies.py objects/test_holds_and_losses.py {_SIM}",
    ),
    3: Group(
        "a renewal without an answer prolongs the validity",
        "objects/test_holds_and_losses.py faults/test_fault_outage.py faults/test_fault_renewal.py",
    ),
    4: Group(
        "a late or repeated try makes a hold that nobody releases",
        "objects/test_lost_replies.py objects/test_barriers.py "
        f"faults/test_fault_replies.py {_SIM}",
    ),
    5: Group(
        "a hold that was given up is renewed on",
        f"objects/test_cancelled.py objects/test_cancelled_at_each_wait.py {_OWNERS}",
    ),
    6: Group(
        "a second signal stops the undo",
        "objects/test_cancelled_at_each_wait.py faces/test_struck_blocks.py "
        "links/test_link_signals.py objects/alone/test_tasks.py objects/alone/test_threads.py",
    ),
    7: Group(
        "what Python dropped, or a thread or task that ended, keeps its hold",
        "drivers/test_unclaimed.py objects/alone/test_threads.py objects/alone/test_tasks.py "
        f"objects/alone/test_closing.py {_HOLDS}",
    ),
    8: Group(
        "entries: one after a loss succeeds, an end takes another's, the last is not sent",
        f"{_OWNERS} {_HOLDS} {_SIM}",
    ),
    9: Group(
        "a forked child uses what its parent has",
        "objects/test_processes.py",
    ),
    10: Group(
        "closing leaves a hold, or ends another client's",
        "objects/test_endings.py objects/test_elections.py objects/alone/test_closing.py",
    ),
    11: Group(
        "leases: shortened, kept whole, valid twice",
        f"{_OWNERS} {_HOLDS} objects/test_tokens_and_tickets.py objects/test_processes.py "
        "faces/test_ticket.py core/test_handing_over.py "
        "faces/test_decorators.py core/test_plain_lock.py",
    ),
    12: Group(
        "a composite counts what it does not have, or keeps what it may not",
        "objects/test_parts.py objects/test_lost_replies.py composite/test_multi_lock.py composite/test_red_lock.py "
        "composite/test_red_faults.py "
        "composite/test_composite_crowds.py core/test_composite.py",
        "an answer that came after its validity makes no hold at all, which is a mistake of the "
        "second group: to look at it once more matters for leases of milliseconds only.",
    ),
    13: Group(
        "a release reports a loss that is none, or none that is",
        f"{_HOLDS} faults/test_fault_outage.py faults/test_fault_replies.py",
        "an answer that comes after the validity cannot tell of a loss: it is not awaited.",
    ),
    14: Group(
        "a late release is sent once, for ever, or by a caller that waits",
        f"{_LOCKS} objects/test_lost_replies.py objects/test_barriers.py "
        "faults/test_fault_late_copies.py faults/test_fault_outage.py "
        "",
    ),
    15: Group(
        "the last in line is first, or a newcomer passes those who stand",
        f"{_LOCKS} objects/test_queues.py objects/test_sharing.py objects/alone/test_fair_lock.py {_SIM}",
    ),
    16: Group(
        "who stands and finds the lock free takes it",
        _LOCKS,
    ),
    17: Group(
        "a release leaves the former holder",
        f"{_LOCKS} objects/test_tokens_and_tickets.py objects/test_lock_likes.py {_SIM}",
    ),
    18: Group(
        "a waiter starts with a message from before its refusal",
        f"{_LOCKS} objects/alone/test_election.py {_SIM}",
    ),
    19: Group(
        "a grant counts from the arrival of its message",
        f"{_LOCKS} objects/test_queues.py {_SIM} {_PERMITS}",
    ),
    20: Group(
        "a grant is believed by another one, or of the wrong kind",
        f"{_LOCKS} objects/test_tokens_and_tickets.py objects/test_lock_likes.py {_SIM} {_PERMITS}",
        "it is allowed to tell the releaser's own next by message.",
    ),
    21: Group(
        "one that does not listen is next, or keeps its place",
        f"{_LOCKS} objects/test_queues.py {_SIM}",
    ),
    22: Group(
        "more permits are granted than fit, or one twice",
        "objects/test_permits.py objects/test_queues.py objects/alone/test_semaphore.py "
        "objects/alone/test_leased_semaphore.py "
        f"core/test_counters.py {_PERMITS} {_SIM}",
    ),
    23: Group(
        "a fenced grant has an older token",
        f"objects/test_tokens_and_tickets.py objects/alone/test_fenced_lock.py objects/alone/test_election.py {_SIM}",
    ),
    24: Group("a grant or a hold is not prolonged", f"{_LOCKS} {_HOLDS} {_SIM}"),
    25: Group(
        "a cancelled waiter keeps its place, or the lock",
        f"objects/test_cancelled.py objects/test_queues.py objects/test_cancelled_at_each_wait.py "
        f"objects/alone/test_tasks.py {_SIM}",
    ),
    26: Group(
        "only a message wakes, or none does",
        f"{_LOCKS} objects/test_queues.py objects/test_permits.py objects/test_events_and_latches.py "
        "faults/test_fault_messages.py "
        "objects/alone/test_election.py "
        f"{_SIM}",
    ),
    27: Group(
        "each waiter of a client looks, or the queue ends while one waits",
        "core/test_counters.py objects/test_queues.py ",
    ),
    28: Group(
        "one that only listens never gets the lock, or a grant has another lease",
        f"core/test_release_script.py {_PERMITS} objects/test_queues.py objects/test_lock_likes.py "
        f"{_SIM}",
    ),
    29: Group("a forced release leaves a mark", _LOCKS),
    30: Group(
        "a release that the server refuses leaves the lock held",
        "core/test_release_script.py objects/test_holds_and_losses.py links/test_link_refusals.py",
    ),
    31: Group(
        "readers and writers: together, past each other, or kept out",
        "core/test_readers_and_writers.py objects/test_sharing.py objects/alone/test_read_write_lock.py "
        f"{_SIM}",
    ),
    32: Group(
        "a notification wakes nobody, or two, or is swallowed; a wait ends without the lock",
        f"core/test_conditions.py objects/test_conditions.py objects/alone/test_condition.py {_SIM}",
    ),
    33: Group(
        "a job or task enters another one's hold",
        f"{_OWNERS} objects/alone/test_tasks.py",
    ),
    34: Group(
        "an older context enters the hold",
        "objects/test_owners.py",
    ),
    35: Group("a release by another one ends a hold", f"{_OWNERS} {_HOLDS}"),
    36: Group(
        "a block that is left elsewhere does not release, or releases another's",
        "objects/test_blocks.py",
    ),
    37: Group(
        "a thread that runs a loop waits for a task of it for ever",
        "objects/test_owners.py",
    ),
    38: Group(
        "a truth test of what was not acquired is true",
        "objects/test_owners.py objects/test_blocks.py faces/test_face_messages.py",
    ),
    39: Group(
        "the thread that keeps time waits for a node",
        "faults/test_fault_name_server.py cluster/test_cluster_renewal.py",
    ),
    40: Group(
        "no answer is taken for a refusal, or the other way round",
        f"objects/test_lost_replies.py {_HOLDS} faults/test_fault_outage.py "
        f"faults/test_fault_renewal.py {_SIM}",
    ),
    41: Group(
        "a script that a moving slot stopped is an error, or counts as not sent",
        "cluster/test_cluster_half_way.py cluster/test_cluster_moves.py",
    ),
    42: Group(
        "a reply is read by the wrong call",
        "objects/test_lost_replies.py faults/test_fault_replies.py faults/test_fault_outage.py",
    ),
    43: Group("credentials are not asked for again", "links/test_login.py"),
    44: Group(
        "a failover starts no renewals, or repeats a token",
        "sentinel/test_sentinel_failover.py sentinel/test_sentinel_epoch.py "
        "cluster/test_cluster_tokens.py",
    ),
    45: Group("one of those who hear of a loss does not", f"{_HOLDS} objects/alone/test_tasks.py"),
    46: Group(
        "a cancelled call waits for an answer",
        "objects/test_cancelled.py objects/test_cancelled_at_each_wait.py objects/alone/test_tasks.py "
        "faults/test_fault_outage.py",
    ),
    47: Group(
        "a barrier lets pass who may not, or holds who may",
        "core/test_barriers.py objects/test_barriers.py core/test_simulated.py",
    ),
    48: Group(
        "a latch or an event counts, opens or closes as it should not, or a waiter misses it",
        f"core/test_counters.py objects/test_events_and_latches.py {_SIM}",
    ),
}


def _m(number: int, name: str, where: str, change: Change) -> Mutant:
    return Mutant(number, name, Mistake(where, change))


_SILENT = Call("PUBLISH", "redis.call('exists', KEYS[1])")

MUTANTS = (
    _m(0, "an acquire takes what is taken", "_core/lock_acquire",
       Condition("free hexists lock holder 0", "false")),
    _m(0, "an acquire sets no lease", "_core/lock_acquire", Call("pexpire", "redis.call('persist', $1)")),
    _m(1, "a number is used twice", "_core.locks.base:Lock.new_hold", Call("draw", "10**11")),
    _m(2, "a grant counts from its reply", "_core.locks.base:Lock.granted",
       Value("valid_until", "$0 - hold.sent_at + clock() + 1")),
    _m(2, "a renewal counts from its reply, and more", "_core.upkeep.watchdog:Watchdog.answered",
       Call("grant", "hold.grant(now + 5, $2)")),
    _m(3, "a renewal without an answer counts", "_core.upkeep.watchdog:Watchdog.answered",
       Call("put_off", "[hold.grant(now, self._lease) for hold in renewal.holds]")),
    _m(4, "a try without an answer is forgotten", "_core.upkeep.session:Session.give_up",
       Call("add", "None")),
    _m(5, "what was given up stays in the table", "_core.model.hold:Hold.leave_owner",
       Body("pass")),
    _m(6, "an interrupted acquire is not given up", "_core.locks.base:Acquire.give_up",
       Body("pass")),
    _m(6, "an interrupted release is not carried through", "_core.locks.release:Release.give_up",
       Body("pass")),
    _m(7, "a task that ended keeps its hold", "_drivers.tasks:_has_ended", Result("False")),
    _m(7, "a thread that ended keeps its hold", "_drivers.flow:ThreadOwner.__init__",
       Value("reference", "lambda: self")),
    _m(7, "a dropped block keeps its hold", "_core.upkeep.session:Session._block_gone",
       Body("pass")),
    _m(8, "an entry takes a free lock", "_core/lock_acquire",
       Value("free", "redis.call('exists', lock) == 0")),
    _m(8, "an entry adds", "_core/lock_acquire", Call("hset", "redis.call('hincrby', $1, $2, $3)")),
    _m(8, "an entry after a loss begins anew", "_core.locks.base:Acquire._refuse_lost",
       Body("pass")),
    _m(8, "an inner end frees the lock", "_core.locks.release:Release.begin",
       Call("down", "lock.down(hold, 0)")),
    _m(8, "the last end is not sent", "_core.locks.release:Release.begin",
       Value("depth", "($0) or 1")),
    _m(9, "a child does not notice", "_drivers.process.lifecycle:_after_fork", Body("pass")),
    _m(9, "a child uses the connections", "_drivers.connected:ConnectedDriver.after_fork",
       Call("_forget_connections", "None")),
    _m(10, "clients of one configuration have one id", "_drivers.process.identity:new_client_id",
       Body("return given or 'client'")),
    _m(11, "a shorter lease shortens", "_core/lock_renew",
       Condition("kept i 1 pttl lock tonumber lease", "kept[i] == 1")),
    _m(11, "a least time keeps nothing", "asyncio.decorators:_Call.__aexit__",
       Condition("hold None rest 0", "False")),
    _m(11, "a ticket leaves the former holder", "_core/lock_give",
       Call("hdel", "redis.call('hexists', $1, $2)")),
    _m(11, "a shorter lease is believed", "_core.model.hold:Hold.grant",
       Condition("until self valid_until", "True")),
    _m(11, "a least time keeps the whole lease", "asyncio.lock:Hold._leave_locked",
       Call("LeaveLocked", "LeaveLocked(self._hold, self._hold.lease)")),
    _m(11, "a hold is renewed beside its ticket", "_core.locks.transfer:HandOver.begin",
       Call("pop", "None")),
    _m(12, "a red lock keeps a minority", "_core.locks.red_lock:RedLock.obtain",
       Call("give_back", "None")),
    _m(12, "a multi lock keeps a part", "_core.locks.multi_lock:MultiLock.obtain",
       Call("give_back", "None")),
    _m(12, "a lost part is no loss", "_core.locks.composite:CompositeHold._living",
       Result("list(self.parts)")),
    _m(12, "a part that is valid is enough", "_core.locks.composite:Composite.keep",
       Condition("len granted self needed", "not granted")),
    _m(12, "a minority is enough", "_core.locks.red_lock:RedLock.__init__",
       Call("__init__", "super().__init__($1, len(members) // 2)")),
    _m(12, "drift is not subtracted", "_core.model.hold:valid_until",
       Result("sent_at + lease")),
    _m(13, "a release of what is gone is quiet", "_core.locks.release:Release.rest",
       Value("ours", "True")),
    _m(14, "a release that was not answered is settled", "_core.upkeep.garbage:Garbage.answered",
       Value("settled", "True")),
    _m(15, "a fair lock is for anybody", "_core/fair_ask", Value("turn", "free")),
    _m(15, "a fair lock serves the last who came", "_core/fair_ask",
       Call("rpush", "redis.call('lpush', $1, $2) * 0 + 1")),
    _m(15, "one that asks passes those who stand", "_core/parts/ask",
       Condition("free queue exists 0 hexists lock holder 1",
                 "free or redis.call('hexists', lock, holder) == 1")),
    _m(15, "one that tries takes permits though others stand", "_core/parts/permits_ask",
       Value("one", "stands ~= '' and $0", which=1)),
    _m(16, "one that stands takes a lock that it finds free", "_core/parts/ask",
       Condition("one one member", "true")),
    _m(16, "one that stands takes permits that it finds free", "_core/parts/permits_ask",
       Condition("mine nobody fits holder", "fits(holder)")),
    _m(17, "a release to the next leaves the former holder", "_core/parts/release",
       Call("hdel", "redis.call('hexists', $1, $2)", which=1)),
    _m(18, "news from before the refusal are believed", "_core.queue.places:Place.granted_until",
       Condition("self refused passed 0 begun now until now span 2", "True")),
    _m(18, "a candidate leads with a grant, unannounced", "_core.objects.election:Election.started",
       Body("return FencedLock.started(self, hold, news)")),
    _m(19, "a grant counts from its message", "_core.queue.places:Place.granted_until",
       Value("until", "now + span * KEPT - SLACK")),
    _m(20, "a grant for nobody is kept", "_core.queue.places:Queues._tell", Call("add", "None")),
    _m(21, "a client that let its grant pass keeps its places", "_core/parts/front",
       Condition("string sub found 2 1 1", "false")),
    _m(21, "one that let its permits expire keeps its places", "_core/parts/permits",
       Condition("late called client", "false")),
    _m(22, "permits are taken for ever", "_core/parts/permits",
       Call("zadd", "redis.call('zadd', $1, '9000000000000', $4)")),
    _m(22, "permits run below zero", "_core/semaphore_acquire",
       Value("left", "math.max($0, 0)")),
    _m(22, "a call that nobody owns counts twice", "_core/parts/once",
       Value("last", "nil", which=0)),
    _m(22, "a release makes more than the code names", "_core/semaphore_change",
       Condition("made named 0 how add how new", "true")),
    _m(22, "a renewal keeps a permit that is gone", "_core/permits_renew",
       Condition("ends now", "$0 and ends > 0")),
    _m(22, "more run than a limit allows", "_core/parts/limited", Call("zcard", "0")),
    _m(22, "permits of a leased semaphore run below zero", "_core/parts/leased",
       Value("free", "($0) + 1", which=2)),
    _m(22, "a leased permit that is taken stays free", "_core/parts/leased",
       Call("incrby", "(freed == 1 and redis.call('incrby', $1, $2))", which=1)),
    _m(22, "several that a release lets in are told as one", "_core/parts/let_in",
       Value("all", "numbers[client][1]")),
    _m(23, "a token stays the same", "_core/parts/draw",
       Call("incrby", "redis.call('incrby', $1, math.max(1 - last, 0))")),
    _m(23, "a copy of an announcement draws another token", "_core/election_ask",
       Condition("known 1 holder tonumber known 2 floor", "false")),
    _m(24, "a renewal renews nothing", "_core/lock_renew", Call("pexpire", "redis.call('pttl', $1)")),
    _m(24, "a renewal takes what is free", "_core/lock_renew",
       Call("hexists", "(redis.call('hset', $1, $2, '1') >= 0 and 1)")),
    _m(24, "a grant is not prolonged", "_core.upkeep.watchdog:Watchdog._grants",
       Call("append", "None")),
    _m(25, "one that is cancelled keeps its permit", "_core.objects.semaphore:Taking.give_up",
       Body("pass")),
    _m(25, "an undone acquire gives nothing back", "_core/semaphore_change",
       Condition("how undo", "false")),
    _m(25, "one that gives up keeps its place for permits", "_core/parts/permits_release",
       Call("zrem", "0")),
    _m(26, "permits that are given back wake nobody", "_core/semaphore_change", _SILENT),
    _m(26, "who finds a gate open tells nobody", "_core.objects.gate:Waiting._look",
       Call("look_all", "None")),
    _m(27, "each waiter at a gate looks", "_core.objects.gate:Waiting._may_go", Result("False")),
    _m(26, "only a message wakes", "_core.queue.places:Queues.turn",
       Condition("line waiters now line look_at", "False")),
    _m(26, "observers hear nothing of a term", "_core/election_ask", _SILENT),
    _m(26, "a message wakes nobody", "_core/parts/queue", _SILENT),
    _m(27, "the queue ends", "_core/parts/join",
       Call("pexpire", "redis.pcall('pexpire', $1, 300)")),
    _m(28, "a grant keeps the former holder's lease", "_core/parts/queue",
       Call("pexpire", "redis.call('pttl', $1)")),
    _m(28, "a Java client that listens never gets a permit", "_core/parts/permits_release",
       Condition("one others how 1 held", "false")),
    _m(28, "the lock is never left to others", "_core/parts/release",
       Condition("one others how 1", "one")),
    _m(28, "the lock is always left to others", "_core/parts/release",
       Condition("one others how 1", "false")),
    _m(29, "a forced release leaves a mark", "_core/parts/release",
       Call("zrem", "(how == '-' and 1 or redis.call('zrem', $1, $2, $3))")),
    _m(30, "a full server refuses a release", "_core/parts/release",
       Call("hdel", "tonumber('0')", which=0)),
    _m(31, "a writer enters beside a reader", "_core/write_acquire",
       Condition("free hexists lock holder 0", "false")),
    _m(31, "a reader enters beside a writer", "_core/read_acquire",
       Value("open", "mode", which=2)),
    _m(31, "a reader passes a writer that stands", "_core/read_acquire",
       Value("open", "true", which=1)),
    _m(31, "who writes may not read", "_core/read_acquire", Value("open", "false", which=2)),
    _m(31, "readers behind one that comes in wait", "_core/parts/rw_queue",
       Condition("reached nil side write writes one", "reached == nil or reached and side")),
    _m(31, "a reader that never came keeps writers out", "_core/parts/rw_queue",
       Condition("hexists lock field 1 in_time writes", "redis.call('hexists', lock, field) == 1")),
    _m(31, "a reader that died keeps writers out", "_core/parts/rw_ask",
       Condition("may_come reader tonumber hget lock 0 entries", "false")),
    _m(31, "a reader's mark outlives its first command", "_core/read_renew",
       Call("zrem", "redis.call('zscore', $1, $2)")),
    _m(31, "the last reader wakes no writer", "_core/parts/let_in", _SILENT),
    _m(32, "a notification wakes nobody", "_core/condition_notify",
       Value("moved", "count", which=0)),
    _m(32, "a notification wakes two", "_core/condition_notify",
       Condition("moved count", "moved == count + 1")),
    _m(32, "a notification is for the second", "_core/condition_notify",
       Call("zrange", "redis.call('zrange', $1, 1, 1)")),
    _m(32, "a wait ends without the lock", "_core.objects.condition:WaitFor.rest",
       Call("_hold_again", "()")),
    _m(32, "a place in a condition is for whom it was notified before", "_core/condition_notify",
       Call("zrem", "redis.call('zscore', $1, $2)", which=1)),
    _m(32, "a notification moves who does not listen", "_core/condition_notify",
       Condition("deaf heard client", "true")),
    _m(32, "who never listens is left, and the rest waits", "_core/condition_notify",
       Call("del", "redis.call('exists', $1)", which=0)),
    _m(32, "who is no holder notifies", "_core/condition_notify",
       Condition("holder held", "false")),
    _m(32, "one that leaves swallows its notification", "_core/condition_notify",
       Value("notified", "false")),
    _m(32, "a copy of a leave passes a notification on", "_core/condition_notify",
       Value("notified", "true")),
    _m(32, "a copy of a wait stands once more", "_core/parts/wait",
       Condition("hexists lock holder 0", "false")),
    _m(32, "a wait does not stand in the condition", "_core/parts/wait",
       Call("zadd", "redis.call('exists', $1)")),
    _m(32, "a look lets the condition end", "_core/condition_look",
       Call("pexpire", "redis.call('exists', $1)")),
    _m(33, "all tasks are one owner", "_drivers.tasks:current_owner",
       Call("get", "next(iter(_owners.values()), None)")),
    _m(33, "a job enters what the one before it left", "_drivers.flow:_job", Result("None")),
    _m(34, "an older context enters", "_drivers.flow:ThreadOwner.has_any_of", Result("True")),
    _m(34, "a signal handler takes the owner of a call", "_drivers.flow:ThreadOwner.is_wanted",
       Result("False")),
    _m(35, "the server asks nobody who holds it", "_core/parts/release",
       Value("held", "true")),
    _m(36, "one who leaves by hand leaves the newest block", "_drivers.block:ByHand.leave",
       Value("chosen", "self._entered")),
    _m(37, "what only this thread could end is waited for",
       "_drivers.flow:ThreadOwner.refuse_vain_wait", Body("return None")),
    _m(38, "a block that was not entered is true", "asyncio.trying:Trying.__bool__",
       Body("return True")),
    _m(38, "what was not awaited is true", "_drivers.unawaited:Unawaited.__bool__", Body("return True")),
    _m(39, "the thread that keeps time asks itself", "_drivers.background.upkeep:Upkeep._send",
       Call("take", "bool(lane.serve(work, report))")),
    _m(40, "a renewal keeps what is another's", "_core/lock_renew", Call("hexists", "1")),
    _m(40, "no answer is a loss", "_core.upkeep.watchdog:Watchdog.answered",
       Call("put_off", "[self.gone(hold) for hold in renewal.holds]")),
    _m(40, "a refusal is no loss", "_core.upkeep.watchdog:Watchdog.answered",
       Call("gone", "None")),
    _m(41, "a moving slot is an error", "_links.replies:_unavailable",
       Result("(error := $0, setattr(error, 'transient', False))[0]")),
    _m(41, "a script that was stopped half way was not sent", "_links.replies:_unavailable",
       Result("(error := $0, setattr(error, 'sent', False))[0]")),
    _m(42, "a connection that owes a reply is used again", "_links.pool:NodePool.take_back",
       Condition("connection owes", "False")),
    _m(43, "credentials are asked for once", "_links.login:Login._keep",
       Condition("time monotonic self _until", "False")),
    _m(43, "a provider that failed is asked no more", "_links.dialling:Shared.begin",
       Call("leave", "None", which=0)),
    _m(44, "a failover sets tokens back", "_core/parts/draw",
       Condition("unit 0 new tells", "false")),
    _m(44, "a failover starts no renewals", "_drivers.background.upkeep:Upkeep.move",
       Call("follow_keys", "None")),
    _m(45, "lost is not set", "_drivers.known_hold:LostState.is_set", Result("False")),
    _m(45, "ensure raises nothing", "_drivers.known_hold:KnownHold.ensure", Body("return")),
    _m(45, "cancel_on_lost cancels nothing", "_drivers.aio:AsyncDriver.cancel_on_lost",
       Body("pass")),
    _m(45, "on_lost is not called", "_core.upkeep.watchdog:Watchdog.lose", Call("tell_loss", "None")),
    _m(46, "an undo waits for an answer", "_core.locks.base:let_go",
       Value("deadline", "NEVER")),
    _m(47, "a copy of an arrival counts again, or one of an end ends others", "_core/parts/barrier",
       Condition("known", "false")),
    _m(47, "who is forgotten arrives anew", "_core/barrier_arrive",
       Condition("broken look zscore waiting party", "broken")),
    _m(47, "a dead party breaks nothing", "_core/barrier_arrive",
       Condition("zcount waiting now 0", "false")),
    _m(47, "all pass before the last has come", "_core/barrier_arrive",
       Condition("zcard waiting parties", "redis.call('zcard', waiting) < parties - 1")),
    _m(47, "a broken barrier is whole at once", "_core/parts/barrier",
       Call("zadd", "redis.call('exists', $1)", which=1)),
    _m(47, "a party that gives up stays", "_core.objects.barrier:Arrive.give_up", Body("pass")),
    _m(47, "only a message ends a wait", "_core.objects.barrier:Arrive._pause",
       Body("return 3600.0")),
    _m(48, "a latch counts down by two", "_core/latch_change",
       Call("decr", "redis.call('decrby', $1, 2)")),
    _m(48, "a latch that has a count is set again", "_core/latch_change",
       Value("sets", "how == 'make' or $0")),
    _m(48, "a latch that opens wakes nobody", "_core/latch_change", _SILENT),
    _m(48, "a waiter misses an opening after which it is closed at once",
       "_core.objects.count_down_latch:CountDownLatch.lets", Result("state.left <= 0")),
    _m(48, "an event that is set wakes nobody", "_core/event_change", _SILENT),
    _m(48, "an event stays set", "_core/event_change",
       Call("set", "redis.call('exists', $1)", which=2)),
    _m(48, "a waiter misses a setting after which it is cleared at once",
       "_core.objects.gate:Gate.lets", Result("state.left <= 0")),
)  # fmt: skip
