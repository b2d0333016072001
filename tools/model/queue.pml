/* The queue of one plain lock: two clients, of which one has two waiters, and what may go wrong.
 *
 * The rules, by the parts of this model:
 *   Thread    1  each hold has a number, which is never used again; its waiter stands in the queue by it
 *             2  the first try takes a free lock; whoever is refused listens, asks, and joins the queue
 *   Scripts   3  a release makes the first who listens the holder, marks its place, and tells it. Who
 *                cannot listen stands like the others, and asks often
 *   Thread    4  it starts without asking if the news are later than its refusal, by one server's clock,
 *                and half of the grant is left; validity counts from the sending; then it renews
 *             5  what has ended here is garbage: released until no request of it can still come
 *   World     6  now and then the oldest waiter of each client looks: it asks, and learns if another one
 *                was granted the lock. Whoever stands gives a free lock to the first, a newcomer joins.
 *                Whoever finds its place lost joins again, and the others look; whoever leaves while it
 *                looks lets the next one look
 *   Number    7  a grant for a number that is over is released
 *   Client    8  whoever hears that its client has lost its places asks
 *   Scripts  10  a mark on a free lock: that client was late, and loses all its places. Releases, forced
 *                ones and those of lost holds remove the mark
 * Scripts are atomic. A tick is the time between two looks. It comes when everybody has done
 * what is due, but for the dead, the frozen, and what is delayed.
 *
 * What goes wrong: a client dies, with or without its connections, or is frozen for a while; it loses
 * its subscription; a message is lost, late, or comes twice; a request is lost or late, or its answer is
 * lost; a waiter gives up; somebody breaks the lock. With -DFAILOVER=1 nothing of this: the primary
 * fails with its last writes. With -DDEAF=1 client 1 cannot listen.
 *
 * Checked in every reachable state:
 *   exclusion   at most one believes that it holds the lock, by the word of the present server; and no
 *               hash has two holders
 *   order       whoever gets the lock by the queue has nobody before it who listens
 *   progress    nobody waits beside a lock that nobody uses for longer than the fault allows. That is
 *               one look; or one grant if whoever was granted the lock is dead or frozen, once for all
 *               its places, or cannot hear that it stands there though it is over; or the lease of a dead or frozen holder. A late request may take the lock
 *               for a lease, too: if it came after its lease, or for somebody who waits.
 *               Nobody waits without a place, but for a look if the message of its loss was lost
 *   innocence   nobody who does in time what is due loses a hold or a place
 *
 * FAULTS bounds what goes wrong in one run; client 1 comes TURNS times, once or twice. With -DBOUNDS=0
 * exclusion and order are checked alone, so that two faults are not too many. A mutant
 * (-DMUTANT=M_...) leaves out one rule; with -DMUTANTS a variable of the environment has its number.
 * Not in the model: Java (rule 9), permits, readers, tokens, own leases, and clients that may not
 * publish.
 */
#ifndef FAULTS
#define FAULTS 1
#endif
#ifndef TURNS
#define TURNS 1
#endif
#ifndef FAILOVER
#define FAILOVER 0
#endif
#ifndef DEAF
#define DEAF 0
#endif
#ifndef BOUNDS
#define BOUNDS 1
#endif
#ifdef MUTANTS
hidden byte which;                 /* not a part of the state: it stays the same */
#define MUTANT which
#define CHOOSE c_code { which = atoi(getenv("MUTANT")); };
#else
#define CHOOSE
#endif
#ifndef MUTANT
#define MUTANT 0
#endif
#define IS(mutant)  (MUTANT == mutant)
#define NOT(mutant) (MUTANT != mutant)

#define M_SAME_NUMBER     1   /* rule 1: a number is used for a second hold */
#define M_NEWCOMER        2   /* rule 6: a newcomer takes a free lock although others stand */
#define M_SELF            3   /* rule 6: who stands takes a free lock although another one is first */
#define M_LAST            4   /* rule 3: the last in line is granted the lock */
#define M_DEAF            5   /* rule 3: somebody who does not listen is granted the lock */
#define M_NO_GRANT        6   /* rule 3: a release only frees the lock */
#define M_NO_MESSAGE      7   /* rule 3: nobody is told of a grant */
#define M_BOTH            8   /* rule 3: the former holder stays beside the next one */
#define M_KEEPS_THE_TTL   9   /* rule 3: a grant lasts as long as the former hold */
#define M_NO_FRONT        10  /* rule 3: a release that is sent again does not name who is next */
#define M_FROM_THE_ANSWER 11  /* rule 4: a hold is valid from the answer on */
#define M_FROM_ARRIVAL    12  /* rule 4: a grant is valid from the arrival of its message on */
#define M_OLD_NEWS        13  /* rule 4: a waiter starts with news that are older than its refusal */
#define M_NO_RENEWAL      14  /* rule 4: nobody makes a grant a lease */
#define M_UNANSWERED      15  /* rule 4: a renewal without an answer counts */
#define M_NO_GARBAGE      16  /* rule 5: who gives up releases nothing */
#define M_KEEPS_ITS_PLACE 17  /* rule 5: a release does not remove a waiter's place */
#define M_ONCE            18  /* rule 5: garbage is released once, although a request may still come */
#define M_NO_LOOK         19  /* rule 6: nobody looks */
#define M_NO_MISSED       20  /* rule 6: a look tells nothing of another one of its client */
#define M_KEEPS_THE_LOOK  32  /* rule 6: who leaves while it looks lets nobody else look */
#define M_OTHERS_STAY     21  /* rule 6: one has lost its place, and the others do not look */
#define M_QUEUE_ENDS      22  /* rule 6: looks do not renew the queue */
#define M_ORPHAN          23  /* rule 7: a grant for nobody is kept */
#define M_STAYS_AWAY      24  /* rule 8: who hears that it has no place does not ask */
#define M_LISTENS_ANEW    25  /* rule 8: after a new subscription nobody asks */
#define M_NO_FORGET       26  /* rule 10: a client that let its grant pass loses one place only */
#define M_MARK_STAYS      27  /* rule 10: a release leaves the mark */
#define M_FORCED_MARK     28  /* rule 10: a forced release leaves it */
#define M_OWN_MARK        29  /* rule 10: who loses a hold leaves it */
#define M_OTHER_SERVER    30  /* rule 4: refusal and news may be of two servers */
#define M_NOT_RESENT      31  /* rule 5: releases are not sent again to a new primary */
#define M_DROPS_THE_DEAF  33  /* rule 3: who cannot listen loses its place as who does not */
#define M_DEAF_SLEEPS     34  /* rule 3: who cannot listen waits for its look */

#define LOOK  1                    /* in ticks: about 2 s, 3 s, 30 s and 10 s */
#define GRANT 2
#define LEASE 3
#define KEEP  3

#define IDS        4               /* the numbers of threads 0, 1 and 2, and the second one of 2 */
#define NOBODY     IDS
#define NUMBER(t)  ((t) + (IS(M_SAME_NUMBER) -> 0 : turn[t]))
#define THREAD(id) ((id) - (id) / 3)
#define CLIENT(id) ((id) / 2)      /* threads 0 and 1 are client 0's, thread 2 is client 1's */
#define BIT(id)    (1 << (id))
#define WHEN(condition, action) if :: condition -> action :: else fi

/* The server. */
byte lock, ttl;                    /* the holders, a bit for each number; how long they have it */
byte queue[IDS + 1], size, keep;
bool mark;                         /* the first in the queue was granted the lock */
byte server;                       /* which one it is */

/* The clients. */
mtype = { IN_TIME, FROZEN, CATCHES_UP };
mtype pace[2] = IN_TIME;
bool alive[2] = true;
bool heard[2];                     /* the server sends it messages */
bool expelled[2];                  /* a message is under way: it has lost its places */

/* Their threads, each with its hold. */
mtype = { RESTS, TRIES, ASKS, LISTENS, WAITS, HOLDS, RELEASES, ENDED };
mtype = { NO_ANSWER, HELD, TAKEN, REFUSED, JOINED };
mtype state[3] = RESTS, answer[3] = NO_ANSWER;
byte turn[3], oldest;              /* the one of client 0 that has waited for longest */
byte valid[3];                     /* what is left of the hold, counted from the sending */
byte missed[3];                    /* the answer names one that was granted the lock: its number + 1 */
byte word[3];                      /* whose answer it has */
bool refused[3], told_to_look[3];
bool due[3];                       /* to be renewed */
bool broken[3];                    /* somebody has broken it, and it cannot know */

/* Their numbers. */
mtype = { NO_MESSAGE, UNDER_WAY, DELAYED, READ };
mtype message[IDS] = NO_MESSAGE;   /* that it was granted the lock */
byte age[IDS], sender[IDS];        /* of the message */
bool newer[IDS];                   /* it is later than the last refusal */
byte garbage[IDS];                 /* 1: to be released again in a while; 2: now */

mtype = { NOTHING, A_TRY, AN_ASK, A_RELEASE };
mtype late = NOTHING;              /* a request that comes late, and whose */
byte late_id;

/* What the checks know. */
byte faults, idle, limit, astray;
bool hard, unread, later, unkept;  /* it takes a look; a loss of places is unread; a lease is over;
                                      the queue has ended */
bool came;                         /* who is marked has sent something since */
bool blamed[2];                    /* everybody has waited for a grant of this client */

hidden byte i, j, k, one, who, front, held, stood, looked;
mtype reply = NO_ANSWER;           /* to a late request */

#define WANTS(t)    (state[t] == TRIES || state[t] == ASKS || state[t] == LISTENS || state[t] == WAITS)
#define BELIEVES(t) (state[t] == HOLDS && valid[t] > 0)
#define COUNTS(t)   (BELIEVES(t) && !broken[t] && word[t] == server)
#define ON_TIME(c)  (alive[c] && pace[c] == IN_TIME)
#define GONE(id)    (NUMBER(THREAD(id)) > id || state[THREAD(id)] == ENDED)
#define OVER(id)    (GONE(id) || state[THREAD(id)] == RESTS)
#define IS_DEAF(c)  (DEAF && c == 1)
#define REACHED(c)  (heard[c] || IS_DEAF(c))
/* A late request of one that is over has joined: who cannot listen does not hear of its grant. */
#define GHOST(id)   (IS_DEAF(CLIENT(id)) && OVER(id))
#define FAULT       !FAILOVER && faults < FAULTS -> faults++; idle = 0; limit = 0; astray = 0

/* ---- Scripts ---- */

inline find(id) { i = 0; do :: i < size && queue[i] != id -> i++ :: else -> break od }

inline shorten(length) { do :: size > length -> size--; queue[size] = 0 :: else -> break od }

inline leave(id) {
  find(id);
  WHEN(i < size,
    mark = mark && i > 0; came = came && mark;
    do :: i < size - 1 -> queue[i] = queue[i + 1]; i++ :: else -> break od;
    shorten(i))
}

/* Nobody stands before *id* who listens, or cannot. */
inline in_order(id) {
  i = 0;
  do :: i < size && queue[i] != id -> assert(!REACHED(CLIENT(queue[i])) || mark && i == 0); i++
  :: else -> break od
}

/* Who has a mark although the lock is free did not release in time: its client loses all places. */
inline forget(c) {
  assert(!BOUNDS || !ON_TIME(c) || GHOST(queue[0]) || server > 0);
  expelled[c] = alive[c] && heard[c];
  WHEN(IS_DEAF(c), unread = BOUNDS);
  mark = false; came = false; j = 0;
  for (i : 0 .. size - 1) {
    WHEN(CLIENT(queue[i]) != c || IS(M_NO_FORGET) && i > 0, queue[j] = queue[i]; j++) };
  shorten(j)
}

/* Find the first who listens, or cannot. Who could and does not loses its place. */
inline first() {
  one = NOBODY;
  do
  :: size == 0 -> break
  :: size > 0 && mark && CLIENT(queue[0]) == 0 -> forget(0)
  :: size > 0 && mark && CLIENT(queue[0]) == 1 -> forget(1)
  :: size > 0 && !mark ->
     if
     :: (IS(M_DROPS_THE_DEAF) -> heard[CLIENT(queue[0])] : REACHED(CLIENT(queue[0]))) || IS(M_DEAF) -> one = queue[(IS(M_LAST) -> size - 1 : 0)]; break
     :: else -> leave(queue[0])
     fi
  od
}

/* Make *one* the holder, mark its place, and tell its client. */
inline grant() {
  assert(REACHED(CLIENT(one))); in_order(one);
  lock = lock | BIT(one); mark = true; came = false;
  ttl = (IS(M_KEEPS_THE_TTL) && ttl > 0 -> ttl : GRANT);
  WHEN(heard[CLIENT(one)] && alive[CLIENT(one)] && NOT(M_NO_MESSAGE),
    message[one] = UNDER_WAY; age[one] = 0; newer[one] = true; sender[one] = server);
  WHEN(BOUNDS && !ON_TIME(CLIENT(one)) && !blamed[CLIENT(one)], blamed[CLIENT(one)] = BOUNDS; idle = 0)
}

inline take(id) {
  came = BOUNDS && (came || mark && queue[0] == id); idle = 0; limit = 0;
  lock = lock | BIT(id); ttl = LEASE; assert(lock == BIT(id))
}

/* The first try knows no queue: it takes a lock that is free. */
inline try(id, said) {
  if :: lock == 0 || (lock & BIT(id)) -> take(id); said = HELD :: else -> said = TAKEN fi
}

#define OF_ONE(id) (mark && CLIENT(queue[0]) == CLIENT(id))  /* its client was granted the lock */

/* Who stands in the queue and finds the lock free gives it to the first. A newcomer only joins. */
inline ask(id, said, other) {
  said = NO_ANSWER; find(id); stood = i < size;
  if
  :: lock == 0 && (size == 0 || IS(M_NEWCOMER) && !stood) || (lock & BIT(id)) ->
     WHEN(lock == 0, in_order(id)); take(id); said = HELD
  :: lock == 0 && stood ->
     first();
     if
     :: one == NOBODY || one == id || IS(M_SELF) -> in_order(id); leave(id); take(id); said = HELD
     :: else -> grant()
     fi
  :: else
  fi;
  if
  :: said == NO_ANSWER ->
     find(id); said = REFUSED;
     WHEN(size == 0 || NOT(M_QUEUE_ENDS), keep = KEEP);
     WHEN(i == size, queue[size] = id; size++; said = JOINED; blamed[CLIENT(id)] = false);
     other = (OF_ONE(id) && queue[0] != id && NOT(M_NO_MISSED) -> queue[0] + 1 : 0)
  :: else
  fi
}

/* It is also how a waiter gives up. Who held nothing may learn who was granted the lock. */
inline release(id, forced) {
  held = (lock & BIT(id)) != 0; find(id); stood = i < size; one = NOBODY; front = 0;
  WHEN(!(forced && IS(M_FORCED_MARK) || held && !forced && IS(M_MARK_STAYS) ||
         !held && IS(M_KEEPS_ITS_PLACE)), leave(id));
  if
  :: held || stood && lock == 0 ->
     first();
     if
     :: one != NOBODY && NOT(M_NO_GRANT) ->
        grant(); lock = (IS(M_BOTH) -> lock : lock & ~BIT(id)); assert(lock == BIT(one))
     :: else -> lock = 0; ttl = 0
     fi
  :: !held && !stood && OF_ONE(id) && NOT(M_NO_FRONT) -> front = queue[0] + 1
  :: else
  fi
}

/* ---- Threads ---- */

#define LOOKS(t) WHEN(WANTS(t) && message[NUMBER(t)] != READ, told_to_look[t] = true)
inline look_all(c) { for (k : 0 .. 2) { WHEN(CLIENT(k) == c, LOOKS(k)) }; skip }
inline tell(other) { WHEN(other > 0 && !OVER(other - 1), LOOKS(THREAD(other - 1))) }

#define DROP(id) message[id] = NO_MESSAGE; age[id] = 0; newer[id] = false; sender[id] = 0
#define NEXT_OLDEST(t) oldest = (t == 0 && WANTS(1) -> 1 : (t == 1 -> 0 : oldest))

/* Who leaves the line while it looks has used the look up: it passes it on. */
#define PASS_ON(t) WHEN(looked && CLIENT(t) == 0 && NOT(M_KEEPS_THE_LOOK), LOOKS(oldest))

inline finish(t) {
  answer[t] = NO_ANSWER; valid[t] = 0; missed[t] = 0; word[t] = 0;
  refused[t] = false; told_to_look[t] = false; due[t] = false; broken[t] = false;
  NEXT_OLDEST(t);
  WHEN(message[NUMBER(t)] == READ, DROP(NUMBER(t)));
  state[t] = ENDED;
  WHEN(t == 2 && turn[t] + 1 < TURNS, turn[t]++; state[t] = RESTS)
}

inline check_exclusion() { assert(COUNTS(0) + COUNTS(1) + COUNTS(2) <= 1) }

inline start(t, time) {
  valid[t] = time; state[t] = HOLDS; due[t] = NOT(M_NO_RENEWAL); idle = 0; limit = 0; NEXT_OLDEST(t);
  check_exclusion()
}

inline lose(t) {
  assert(!BOUNDS || !ON_TIME(CLIENT(t)) || broken[t] || server > 0);
  WHEN(NOT(M_OWN_MARK), garbage[NUMBER(t)] = 2);
  finish(t)
}

inline send(t) {
  valid[t] = LEASE; word[t] = server;
  if
  :: state[t] == TRIES -> try(NUMBER(t), answer[t])
  :: else ->
     told_to_look[t] = false;
     ask(NUMBER(t), answer[t], missed[t]);
     newer[NUMBER(t)] = newer[NUMBER(t)] && (answer[t] == HELD || sender[NUMBER(t)] != server);
     broken[t] = broken[t] && answer[t] == HELD
  fi
}

inline read_answer(t) {
  valid[t] = (IS(M_FROM_THE_ANSWER) -> LEASE : valid[t]);
  if
  :: answer[t] == HELD && valid[t] > 0 ->
     looked = state[t] == ASKS; start(t, valid[t]); PASS_ON(t)
  :: answer[t] == HELD && valid[t] == 0 -> state[t] = ASKS
  :: answer[t] == TAKEN -> state[t] = (REACHED(CLIENT(t)) -> ASKS : LISTENS)
  :: else ->
     state[t] = WAITS;
     WHEN(answer[t] == JOINED && refused[t] && NOT(M_OTHERS_STAY), look_all(CLIENT(t)));
     refused[t] = true; valid[t] = 0; tell(missed[t])
  fi;
  answer[t] = NO_ANSWER; missed[t] = 0
}

/* A waiter starts without asking if its news are later than its refusal, by the clock of one server,
 * and if half of the grant is left. */
#define FRESH(t) (refused[t] && (newer[NUMBER(t)] || IS(M_OLD_NEWS)) && \
  (sender[NUMBER(t)] == word[t] || IS(M_OTHER_SERVER)) && \
  (2 * age[NUMBER(t)] <= GRANT || IS(M_FROM_ARRIVAL)))
#define LEFT(t)  (IS(M_FROM_ARRIVAL) -> GRANT : GRANT - age[NUMBER(t)])

/* With an answer, news for another one of the sender's client are lost as well. */
#define UNHEARD(id) WHEN(one != NOBODY && CLIENT(one) == CLIENT(id), DROP(one))
#define COMES_LATE(what) late == NOTHING && FAULT; late = what; late_id = NUMBER(t); hard = BOUNDS

/* It asks so often that it finds what is free, or its own, before anything else is due. */
#define ASKS_OFTEN(t) (IS_DEAF(CLIENT(t)) && NOT(M_DEAF_SLEEPS) && \
  (lock == 0 || (lock & BIT(NUMBER(t)))))

proctype Thread(byte t) provided (pace[CLIENT(t)] != FROZEN) {
end:
  do
  :: atomic { state[t] == RESTS ->
       if :: state[t] = TRIES :: REACHED(CLIENT(t)) -> state[t] = ASKS fi;
       WHEN(t == 1 && !WANTS(0), oldest = 1) }
  :: atomic { (state[t] == TRIES || state[t] == ASKS) && answer[t] == NO_ANSWER ->
       if
       :: d_step { send(t) }
       :: FAULT; d_step { send(t); answer[t] = NO_ANSWER; missed[t] = 0 }      /* no answer */
       :: state[t] == TRIES && COMES_LATE(A_TRY)
       :: state[t] == ASKS && COMES_LATE(AN_ASK)
       fi }
  :: d_step { answer[t] != NO_ANSWER -> read_answer(t) }
  :: atomic { state[t] == WAITS && message[NUMBER(t)] == READ ->
       if
       :: message[NUMBER(t)] = NO_MESSAGE
       :: FAULT; message[NUMBER(t)] = DELAYED                                  /* it comes twice */
       fi;
       d_step {
         if
         :: FRESH(t) -> start(t, LEFT(t))
         :: else -> state[t] = ASKS
         fi;
         WHEN(message[NUMBER(t)] == NO_MESSAGE, DROP(NUMBER(t))) } }
  :: d_step { state[t] == WAITS && told_to_look[t] -> told_to_look[t] = false; state[t] = ASKS }
  :: d_step { state[t] == WAITS && ASKS_OFTEN(t) -> state[t] = ASKS }
  :: atomic { WANTS(t) && FAULT; d_step {                                      /* it gives up */
       WHEN(NOT(M_NO_GARBAGE), garbage[NUMBER(t)] = 2);
       looked = state[t] == ASKS || told_to_look[t]; finish(t); PASS_ON(t) } }
  :: atomic { BELIEVES(t) && due[t] ->
       if
       :: lock & BIT(NUMBER(t)) -> d_step {
            take(NUMBER(t)); word[t] = server; valid[t] = LEASE; due[t] = false; check_exclusion() }
       :: !(lock & BIT(NUMBER(t))) -> d_step { lose(t) }
       :: FAULT; d_step { WHEN(lock & BIT(NUMBER(t)), take(NUMBER(t))) }        /* no answer */
       fi }
  :: d_step { state[t] == HOLDS && valid[t] == 0 -> lose(t) }
  :: atomic { BELIEVES(t) || state[t] == RELEASES -> state[t] = RELEASES;
       if
       :: d_step { release(NUMBER(t), false); tell(front);
            WHEN(late != NOTHING && late_id == NUMBER(t), garbage[NUMBER(t)] = 2); finish(t) }
       :: FAULT; d_step { release(NUMBER(t), false); UNHEARD(NUMBER(t)) }      /* no answer */
       :: COMES_LATE(A_RELEASE)
       fi }
  od
}

/* ---- Numbers ---- */

proctype Number(byte id) provided (pace[CLIENT(id)] != FROZEN) {
end:
  do
  :: d_step { message[id] == UNDER_WAY || message[id] == DELAYED ->
       if
       :: !OVER(id) && WANTS(THREAD(id)) && !told_to_look[THREAD(id)] -> message[id] = READ
       :: else -> DROP(id); WHEN(OVER(id) && NOT(M_ORPHAN), garbage[id] = 2)
       fi }
  :: atomic { message[id] == UNDER_WAY && FAULT; hard = BOUNDS;
       if :: d_step { DROP(id) } :: message[id] = DELAYED fi }
  :: d_step { garbage[id] == 2 ->
       release(id, false); tell(front);
       garbage[id] = (late != NOTHING && late_id == id && NOT(M_ONCE) -> 1 : 0) }
  :: atomic { garbage[id] == 1 -> garbage[id] = 0; later = BOUNDS }              /* a lease is over */
  od
}

/* ---- Clients ---- */

#define TO_DO(t) (state[t] == TRIES || state[t] == ASKS || state[t] == LISTENS || \
  state[t] == RELEASES || state[t] == HOLDS && (due[t] || valid[t] == 0) || \
  state[t] == WAITS && (told_to_look[t] || message[NUMBER(t)] == READ || ASKS_OFTEN(t) || !REACHED(CLIENT(t))))
#define TO_READ(id) (message[id] == UNDER_WAY || garbage[id] == 2)
#define BUSY(c) (expelled[c] || c == 0 && (TO_DO(0) || TO_DO(1) || TO_READ(0) || TO_READ(1)) || \
  c == 1 && (TO_DO(2) || TO_READ(2) || TO_READ(3)))
/* One of its waiters was late, and its client loses its places for that at the next release. */
#define OWES(c) (mark && CLIENT(queue[0]) == c && !(lock & BIT(queue[0])) && !OVER(queue[0]))

proctype Client(byte c) {
end:
  do
  :: d_step { expelled[c] && pace[c] != FROZEN ->
       expelled[c] = false; WHEN(NOT(M_STAYS_AWAY), look_all(c)) }
  :: d_step { expelled[c] -> unread = BOUNDS; expelled[c] = false }    /* that message is lost */
  :: d_step { !REACHED(c) && pace[c] != FROZEN && (WANTS(2 * c) || c == 0 && WANTS(1)) ->
       heard[c] = true;
       for (k : 0 .. 2) { WHEN(CLIENT(k) == c && state[k] == LISTENS, state[k] = ASKS) };
       WHEN(NOT(M_LISTENS_ANEW), look_all(c)) }
  :: atomic { heard[c] && alive[c] && FAULT; d_step {                /* it loses its subscription */
       heard[c] = false; expelled[c] = false;
       for (k : 0 .. IDS - 1) {
         WHEN(CLIENT(k) == c, refused[THREAD(k)] = false; WHEN(message[k] != READ, DROP(k))) };
       skip } }
  :: atomic { alive[c] && FAULT; hard = BOUNDS;
       if :: heard[c] = false :: heard[c] fi;                        /* its connections may stay */
       d_step {
         alive[c] = false; pace[c] = IN_TIME; expelled[c] = false;
         for (k : 0 .. IDS - 1) {
           WHEN(CLIENT(k) == c, finish(THREAD(k)); state[THREAD(k)] = ENDED; DROP(k); garbage[k] = 0) };
         skip } }
  :: atomic { ON_TIME(c) && FAULT; hard = BOUNDS; pace[c] = FROZEN }
  :: pace[c] == FROZEN -> pace[c] = CATCHES_UP
  :: pace[c] == CATCHES_UP && !BUSY(c) && !OWES(c) -> pace[c] = IN_TIME
  od
}

/* ---- World ---- */

inline check_progress() {
  for (k : 0 .. IDS - 1) { WHEN(lock == BIT(k), who = k) };
  if
  :: ((WANTS(0) || WANTS(1)) && ON_TIME(0) || WANTS(2) && ON_TIME(1)) &&
     !BELIEVES(0) && !BELIEVES(1) && !BELIEVES(2) ->
     if
     :: idle > 0
     :: idle == 0 && lock != 0 && !ON_TIME(CLIENT(who)) ->
        limit = (mark && queue[0] == who && !came -> GRANT : LEASE)
     :: idle == 0 && lock != 0 && ON_TIME(CLIENT(who)) && OVER(who) && later -> limit = LEASE
     :: idle == 0 && lock != 0 && mark && queue[0] == who && GHOST(who) && !later -> limit = GRANT
     :: idle == 0 && lock != 0 && ON_TIME(CLIENT(who)) && WANTS(THREAD(who)) && !mark -> limit = LEASE
     :: else -> limit = (hard -> LOOK : 0)
     fi;
     idle++; assert(idle <= limit)
  :: else -> idle = 0; limit = 0
  fi;
  held = false;
  for (k : 0 .. 2) {
    find(NUMBER(k));
    held = held || i == size && state[k] == WAITS && ON_TIME(CLIENT(k)) && !(lock & BIT(NUMBER(k))) };
  astray = (held -> astray + 1 : 0); assert(unkept || astray <= (unread -> LOOK : 0))
}

#if FAILOVER
byte kept_lock, kept_ttl, kept_queue[IDS + 1], kept_size;
bool kept_mark, behind;            /* the replica has no writes since */
#define COPY(to, from) to##lock = from##lock; to##ttl = from##ttl; to##size = from##size; \
  to##mark = from##mark; for (k : 0 .. IDS) { to##queue[k] = from##queue[k] }
#endif

inline pass() {
  WHEN(ttl > 0, ttl--; WHEN(ttl == 0, lock = 0));
  WHEN(keep > 0, keep--; WHEN(keep == 0,
    unkept = BOUNDS;
    for (i : 0 .. size - 1) {
      assert(!BOUNDS || hard || GONE(queue[i]) || !WANTS(THREAD(queue[i])) || !ON_TIME(CLIENT(queue[i]))) };
    shorten(0); mark = false; came = false));
#if FAILOVER
  WHEN(kept_ttl > 0, kept_ttl--; WHEN(kept_ttl == 0, kept_lock = 0));
#endif
  for (k : 0 .. 2) {
    WHEN(valid[k] > 0 && !(IS(M_UNANSWERED) && state[k] == HOLDS), valid[k]--);
    due[k] = state[k] == HOLDS && NOT(M_NO_RENEWAL) };
  for (k : 0 .. IDS - 1) {
    WHEN(message[k] != NO_MESSAGE && age[k] < GRANT, age[k]++); WHEN(garbage[k] == 1, garbage[k] = 2) };
  skip
}

#define DELAYS(c) (alive[c] && pace[c] != FROZEN && BUSY(c))

proctype World() {
end:
  do
  :: atomic { !DELAYS(0) && !DELAYS(1) -> d_step { WHEN(BOUNDS, check_progress()); pass();
         /* The oldest waiter of each client looks. */
         WHEN(NOT(M_NO_LOOK), LOOKS(oldest); LOOKS(2)) } }
  :: d_step { late != NOTHING ->
       if
       :: late == A_TRY -> try(late_id, reply)
       :: late == AN_ASK -> ask(late_id, reply, front)
       :: else -> release(late_id, false); UNHEARD(late_id)
       fi;
       WHEN(reply == HELD && !OVER(late_id), unkept = BOUNDS);
       late = NOTHING; late_id = 0; reply = NO_ANSWER }
  :: d_step { late != NOTHING -> late = NOTHING; late_id = 0 }        /* it never comes */
  :: atomic { lock != 0 && FAULT; d_step {                           /* somebody breaks the lock */
       for (k : 0 .. IDS - 1) { WHEN(lock == BIT(k), who = k) };
       WHEN(!OVER(who), broken[THREAD(who)] = true);
       WHEN(!OVER(who) && WANTS(THREAD(who)), hard = BOUNDS; unread = BOUNDS);
       release(who, true) } }
#if FAILOVER
  :: d_step { server == 0 && !behind -> behind = true;
       COPY(kept_, ); skip }
  :: d_step { behind -> behind = false; server = 1; hard = BOUNDS; idle = 0; astray = 0;
       COPY(, kept_);
       kept_lock = 0; kept_ttl = 0; kept_size = 0; kept_mark = false; keep = (size > 0 -> KEEP : 0);
       heard[0] = false; heard[1] = false; expelled[0] = false; expelled[1] = false;
       for (k : 0 .. IDS - 1) {
         kept_queue[k] = 0;
         WHEN(GONE(k) && alive[CLIENT(k)] && NOT(M_NOT_RESENT), garbage[k] = 2) };
       skip }
#endif
  od
}

init { atomic { CHOOSE run Thread(0); run Thread(1); run Thread(2); run Client(0); run Client(1); run World();
  run Number(0); run Number(1); run Number(2); run Number(3) } }
