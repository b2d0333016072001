/* The waiting room of one leased semaphore: three clients that want one permit each.
 *
 * Each permit has an id. A client that is refused stands in the queue in its own name, or in the
 * name of the permit that it wants. A release gives its permit to the first client that listens, for
 * a claim window, and tells it. The claim has the id of that permit, or, in a client's own name, an
 * id that only the scripts know. So nobody can overtake. A client that is told that it has a permit
 * may start at once if the claim is for the permit that it wants now, if the claim stands by its
 * clock, and if each of its tries was answered. It confirms the lease while it works. It may ask as
 * well, as often as it likes.
 *
 * The server's scripts are atomic. Between them anything may happen, in any order:
 *   a client is slow, gives up, or crashes; a request or reply is lost, or a request comes late, to
 *   take or to give back; a message is lost; a lease or a claim ends; a confirmation is lost; a
 *   client asks without a place, although it still has one, or changes how it stands.
 * What has ended comes back with the next script that runs.
 *
 * Checked in every reachable state:
 *   exclusion           no more clients believe in their permits than there are
 *   conservation        the free permits, the claims and those in use are as many as there are
 *   no gap              a permit that began with a claim was not away when it is confirmed
 *   no overtaking       who takes a free permit stands behind nobody in the queue
 *   nobody stuck        nobody has to poll unless a lease, a claim or a message was lost, and in
 *                       the end nobody waits and all permits are free
 *
 * PERMITS is how many there are. FAULTS bounds how many faults one run has. A mutant leaves out one
 * rule (-DM_...). Two rules have none: a place that is left over gets no permit, and who was given
 * its permit while it asks takes no other. Their mistakes need more faults: tools/must_die.py makes
 * them in the scripts.
 */
#define N 3
#ifndef PERMITS
#define PERMITS 1
#endif
#ifndef FAULTS
#define FAULTS 1
#endif
#ifndef TURNS
#define TURNS 1
#endif

/* How often a client polls at most, before it gets its permit: a bound shows that it does. */
#define LOOKS 4

#define NOWHERE 0
#define CLAIMED 1
#define TAKEN   2

/* The members of the queue. */
#define OWN(c)    (c)             /* the client */
#define NAMED(c)  (N + c)         /* the permit that the client wants now */
#define PAST(c)   (2 * N + c)     /* a permit that it has wanted before */
#define NOBODY    (3 * N)

#define NONE  0
#define HINT  1
#define START 2                   /* the permit that the client wants now is its own */
#define OTHER 3                   /* a permit that it has wanted before is */

byte free = PERMITS;
byte ended = 0;                   /* permits whose time is over, for the next script */
byte permit[N];                   /* what the server has under the id that the client wants */
byte loose[N];                    /* a claim in the client's own name */
byte past[N];                     /* permits under an older id */
byte queue[3 * N];
byte size = 0;
bool stands[3 * N];

bool alive[N] = true;
bool valid[N];                    /* its permit is within the lease, counted from the sending */
bool believes[N];
byte message[N];
byte late[N];                     /* a try may still arrive; 1: of an older id, 2: of this one */
bool late_release[N];             /* a copy of a release may still arrive */
bool unanswered[N];               /* no reply came to a try of this wait */
bool in_time[N];                  /* by the client's clock, the claim that was given last stands */
bool by_claim[N];                 /* it has not confirmed the claim that it began with */
bool away[N];                     /* the server has ended that claim */
byte faults = 0;
bool slow = false;                /* a fault that only a look after some time can repair */
byte done = 0;

#define believers() (believes[0] + believes[1] + believes[2])
#define in_use(c)   ((permit[c] != NOWHERE) + loose[c] + past[c])

inline remove(m) {
  if
  :: stands[m] ->
     i = 0;
     do
     :: queue[i] != m -> i++
     :: else -> break
     od;
     do
     :: i + 1 < size -> queue[i] = queue[i + 1]; i++
     :: else -> break
     od;
     size--; queue[size] = 0; stands[m] = false; i = 0
  :: else
  fi
}

inline enqueue(m) {
  if
  :: !stands[m] -> queue[size] = m; size++; stands[m] = true
  :: else
  fi
}

/* What has ended comes back. */
inline collect() {
  free = free + ended; ended = 0
}

/* Give a permit to member m of the queue; c is its client, which is told. */
inline give(m, c) {
  remove(m);
#ifndef M_STAYS_FREE
  free--;
#endif
  told = HINT;
  if
  :: m == OWN(c) -> loose[c]++
  :: m == NAMED(c) && permit[c] != NOWHERE -> free++           /* the place is left over */
  :: m == NAMED(c) && permit[c] == NOWHERE ->
     permit[c] = CLAIMED; in_time[c] = true; away[c] = false; told = START
  :: m == PAST(c) -> past[c]++; told = OTHER;
#ifdef M_ANY_PERMIT
     in_time[c] = true
#endif
  fi;
#ifndef M_NO_MESSAGE
  if
  :: message[c] < told || told == OTHER -> message[c] = told
  :: else
  fi;
#endif
  told = NONE
}

/* Give the free permits to the first members whose clients listen. One for the caller's member is
 * kept for it: then mine is true. */
inline grant(caller, asked) {
  left = free; at = 0; mine = false;
  do
  :: left > 0 && at < size ->
     head = queue[at];
     if
     :: head == caller && asked -> left--; at++; mine = true
#ifndef M_DEAD_HEAD
     :: (head != caller || !asked) && !alive[head % N] -> remove(head)
     :: (head != caller || !asked) && alive[head % N] ->
#else
     :: head != caller || !asked ->
#endif
        left--; give(head, head % N)
     fi
  :: else -> break
  od;
  left = 0; at = 0; head = 0
}

inline take(c, m) {
  permit[c] = TAKEN; reply = true;
  if
  :: m != NOBODY -> remove(OWN(c)); remove(NAMED(c))
  :: else
  fi
}

/* leased_semaphore_acquire, for member m of the queue. Who has forgotten its place asks as NOBODY,
 * as if it stood at the end. */
inline acquire(c, m) {
  collect();
  reply = false; mine = false; asks = false;
  if
  :: permit[c] == TAKEN -> reply = true
  :: permit[c] == CLAIMED ->
#ifdef M_KEEPS_THE_CLAIM
     reply = true
#else
     take(c, m)
#endif
  :: permit[c] == NOWHERE && loose[c] > 0 && m != NOBODY -> loose[c]--; take(c, m)
  :: permit[c] == NOWHERE && (loose[c] == 0 || m == NOBODY) ->
     asks = free > 0;
     if
     :: m != NOBODY && (free == 0 || size > 0) -> enqueue(m)
     :: else
     fi
  fi;
#ifdef M_OVERTAKES
  mine = asks;
#else
  mine = asks && size == 0;
  if
  :: free > 0 && size > 0 -> grant(m, asks)
  :: else
  fi;
  mine = mine || (asks && m == NOBODY && free > 0);
#endif
  if
  :: asks && permit[c] == CLAIMED -> take(c, m)            /* serve has given it to the client */
  :: asks && permit[c] != CLAIMED && mine ->
     i = 0;
     do
     :: i < size && queue[i] % N != c -> assert(!alive[queue[i] % N] || m == NOBODY); i++
     :: else -> break
     od;
     i = 0;
     free--; take(c, m)
  :: else
  fi;
  mine = false; asks = false
}

/* leased_semaphore_release, of the permit that the client wants, or wanted before. */
inline release(c, before) {
  collect();
  if
  :: before && past[c] > 0 -> past[c]--; free++
  :: !before && permit[c] != NOWHERE -> permit[c] = NOWHERE; free++
  :: else
  fi;
  grant(NOBODY, false)
}

/* leased_semaphore_leave: the client waits no longer. */
inline leave(c) {
  collect();
  remove(OWN(c)); remove(NAMED(c));
#ifndef M_LEAVE_KEEPS
  free = free + loose[c]; loose[c] = 0;
  if
  :: permit[c] != NOWHERE -> permit[c] = NOWHERE; free++
  :: else
  fi;
#endif
  grant(NOBODY, false)
}

/* The next permit that the client wants has another id. */
inline retire(c) {
#ifndef M_SAME_ID
  if
  :: late[c] == 2 -> late[c] = 1
  :: else
  fi;
  if
  :: permit[c] != NOWHERE -> permit[c] = NOWHERE; past[c]++
  :: else
  fi;
  if
  :: stands[NAMED(c)] && stands[PAST(c)] -> remove(NAMED(c))
  :: stands[NAMED(c)] && !stands[PAST(c)] ->
     i = 0;
     do
     :: queue[i] != NAMED(c) -> i++
     :: else -> break
     od;
     queue[i] = PAST(c); i = 0; stands[NAMED(c)] = false; stands[PAST(c)] = true
  :: else
  fi;
  if
  :: message[c] == START -> message[c] = OTHER
  :: else
  fi;
#endif
  unanswered[c] = false; in_time[c] = false
}

#ifdef M_TRUST_THE_MESSAGE
#define IN_TIME(c) true
#else
#define IN_TIME(c) in_time[c]
#endif
#ifdef M_UNANSWERED
#define ANSWERED(c) true
#else
#define ANSWERED(c) (!unanswered[c])
#endif
#ifdef M_ANY_PERMIT
#define FOR_IT(c) (message[c] >= START)
#else
#define FOR_IT(c) (message[c] == START)
#endif
#define MAY_START(c) (FOR_IT(c) && ANSWERED(c) && IN_TIME(c))

#define BELIEVE(c) believes[c] = true; assert(believers() <= PERMITS)

proctype Client(byte me) {
  byte turn = 0, i = 0, head = 0, looks = 0, left = 0, at = 0, told = NONE, member = 0, way = 0;
  bool reply = false, mine = false, asks = false, lost = false;
  {
    do
    :: turn < TURNS ->
       turn++;
       if
       :: way = OWN(me)
       :: way = NAMED(me)
       fi;
ask:
       atomic {
         valid[me] = true;
         if
         :: stands[OWN(me)] -> member = OWN(me)
         :: !stands[OWN(me)] -> member = way
         :: faults < FAULTS -> faults++; slow = true; member = NOBODY
         :: faults < FAULTS -> faults++; slow = true; way = NAMED(me) + OWN(me) - way; member = way
         fi
       };
       if
       :: atomic {
            if
            :: lost = false
            :: faults < FAULTS -> faults++; lost = true
            fi;
            acquire(me, member);
            member = 0;
            if
            :: lost -> lost = false; unanswered[me] = true; reply = false; goto ask
            :: else
            fi }
       :: atomic { faults < FAULTS -> faults++; unanswered[me] = true; goto ask }
       :: atomic { faults < FAULTS && late[me] == 0 ->
            faults++; slow = true; unanswered[me] = true; late[me] = 2; goto ask }
       fi;
       if
       :: reply ->
          atomic {
            reply = false;
            if
            :: valid[me] -> BELIEVE(me)
            :: else
            fi
          };
work:
          atomic { believes[me] = false; by_claim[me] = false };
give_back:
          atomic {
            if
            :: lost = false
            :: faults < FAULTS -> faults++; lost = true
            :: faults < FAULTS && !late_release[me] -> faults++; late_release[me] = true
            fi;
            release(me, false);
            valid[me] = valid[me] && lost;
            if
            :: lost -> lost = false; goto give_back           /* the reply is lost */
            :: else -> retire(me)
            fi }
       :: else ->
          valid[me] = false;
wait:
          if
          :: atomic { message[me] != NONE -> message[me] = NONE; goto ask }
          :: atomic { MAY_START(me) -> message[me] = NONE;
               valid[me] = true; by_claim[me] = true; BELIEVE(me) };
confirm:
             if
             :: atomic {                                             /* leased_semaphore_renew */
#ifdef M_CONFIRM_TAKES
                  true ->
#else
                  permit[me] != NOWHERE ->
#endif
                  permit[me] = TAKEN;
                  if
                  :: by_claim[me] && !believes[me] && valid[me] ->
                     assert(!away[me]); BELIEVE(me)
                  :: else
                  fi;
                  by_claim[me] = false }
             :: atomic { permit[me] == NOWHERE -> by_claim[me] = false; believes[me] = false }
             :: atomic { faults < FAULTS -> faults++; goto confirm }      /* it is sent again */
             fi;
             goto work
          :: atomic { timeout -> assert(slow); looks++; assert(looks <= LOOKS); goto ask }
          :: atomic { faults < FAULTS -> faults++; leave(me); retire(me) }      /* it gives up */
          fi
       fi
    :: else -> break
    od
  } unless { atomic { !alive[me] -> skip } };
  done++
}

/* By the client's clock a claim ends no later than by the server's. */
#ifdef M_LONG_CLAIM
#define CLAIM_MAY_END(c) true
#else
#define CLAIM_MAY_END(c) (!in_time[c])
#endif

#define A_FAULT(c) \
  if \
  :: alive[c] && !slow -> faults++; slow = true \
  :: else \
  fi

#ifdef M_SAME_ID
#define BEFORE false
#else
#define BEFORE true
#endif

/* What the network, time and the operating system do to client c. */
proctype World(byte c) {
  byte i = 0, head = 0, left = 0, at = 0, told = NONE, member = 0;
  bool reply = false, mine = false, asks = false;
end:
  do
  :: atomic { late[c] == 2 -> late[c] = 0;
       if
       :: member = NAMED(c)
       :: member = OWN(c)
       fi;
       acquire(c, member); reply = false; member = 0 }
  :: atomic { late[c] == 1 -> late[c] = 0; collect();
       if
       :: free > 0 && size == 0 -> free--; past[c]++
       :: free == 0 || size > 0 -> enqueue(PAST(c)); grant(NOBODY, false)
       fi }
  :: atomic { late_release[c] -> late_release[c] = false; release(c, BEFORE) }
  :: atomic { message[c] != NONE && faults < FAULTS -> faults++; slow = true; message[c] = NONE }
  :: atomic { in_time[c] && (!alive[c] || slow || faults < FAULTS) ->
       A_FAULT(c); in_time[c] = false;
       if
       :: by_claim[c] -> believes[c] = false
       :: else
       fi }
  :: atomic { permit[c] == CLAIMED && CLAIM_MAY_END(c) && (!alive[c] || slow || faults < FAULTS) ->
       A_FAULT(c); permit[c] = NOWHERE; ended++; away[c] = true }
  :: atomic { loose[c] > 0 && (!alive[c] || slow || faults < FAULTS) ->
       A_FAULT(c); loose[c]--; ended++ }
  :: atomic { past[c] > 0 && slow -> past[c]--; ended++ }
  :: atomic { valid[c] && faults < FAULTS ->
       faults++; slow = true; valid[c] = false; believes[c] = false }
  :: atomic { permit[c] == TAKEN && !valid[c] && slow -> permit[c] = NOWHERE; ended++ }
  :: atomic { alive[c] && faults < FAULTS ->
       faults++; alive[c] = false; valid[c] = false; believes[c] = false; by_claim[c] = false;
       message[c] = NONE;
       if
       :: in_use(c) > 0 || free > 0 || ended > 0 -> slow = true
       :: else
       fi }
  :: atomic { free + ended + in_use(0) + in_use(1) + in_use(2) != PERMITS -> assert(false) }
  :: atomic { done == N && timeout -> assert(free + ended == PERMITS); break }
  od
}

init {
  atomic { run Client(0); run Client(1); run Client(2);
    run World(0); run World(1); run World(2) }
}
