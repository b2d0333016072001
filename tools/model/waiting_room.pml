/* The waiting room of one lock: three clients, and everything that may go wrong between them.
 *
 * The waiting clients stand in a queue on the server. A release gives the lock to the first that
 * listens, for a claim window, and tells it. The client takes the message for a hint, and asks, as
 * often as it likes. One release of a run may leave the lock free for a while, to others that do not
 * stand in the queue. Then the first client is told to look after that while. The other tells
 * everybody of its release, and the first to ask gets the lock.
 *
 * With -DDIRECT a client may also start at once if the message is in time, and confirm while it
 * works. With -DFENCED each hold has a token. A release draws it for the client that it gives the
 * lock to, and the message has it.
 *
 * The server's scripts are atomic. Between them anything may happen, in any order:
 *   a client is slow, gives up, or crashes; a request or reply is lost, or a request comes late;
 *   a message is lost or late; a hold's lease ends, or the claim window of the head of the queue;
 *   a confirmation is lost. A late one keeps what its client has, and takes nothing.
 * A client that is frozen is one that is slow for long.
 *
 * Checked in every reachable state:
 *   exclusion           no two clients believe in their holds
 *   bounded overtaking  a client in the queue is overtaken only if the lock was left to others, and
 *                       once, unless a lease, a claim or a message was lost
 *   growing tokens      a hold has a larger token than each hold before it
 *   nobody stuck        nobody has to poll unless a lease, a claim or a message was lost,
 *                       and in the end nobody waits and the lock is free
 *
 * With -DOTHERS a lock may be left to others. FAULTS bounds how many faults one run has. A mutant
 * leaves out one rule (-DM_...).
 */
#define N 3
#ifndef FAULTS
#define FAULTS 2
#endif
#ifndef TURNS
#define TURNS 1
#endif

/* How often a client polls at most, before it gets the lock: a bound shows that it does. */
#define LOOKS 4

#define FREE      0
#define HOLD(c)   (c + 1)          /* the hold that the client wants now */
#define CLAIM(c)  (N + c + 1)      /* the head of the queue may take it */
#define LATE(c)   (2 * N + c + 1)  /* an older hold of the client, by a request that came late */
#define OTHER     (3 * N + 1)      /* somebody who does not stand in the queue */

byte holder = FREE;
byte queue[N];                     /* clients, the first in front */
byte size = 0;
bool in_queue[N];

bool alive[N] = true;
bool valid[N];                     /* its hold is within the lease, counted from the sending */
bool believes[N];
bool waiting[N];
bool message[N];                   /* a wake-up is on the way, or not yet read */
bool late[N];                      /* a request of an older hold may still arrive */
bool cleaning[N];                  /* the client releases that hold, again and again */
byte overtaken[N];
bool in_time[N];                   /* by the client's clock, the claim that was given last stands */
bool fresh[N];                     /* no request of the client has run since its claim was given */
bool by_claim[N];                  /* it believes because of a claim, and has not confirmed */
byte late_message[N];              /* a message is still on the way; 2: the client has looked */
bool left = false;                 /* a release has left the lock to others */
bool others_turn = false;          /* one of them may take it now */
bool for_all = false;              /* one of them has told everybody that it is free */
#ifdef FENCED
byte counter = 0;                  /* the last token */
byte largest = 0;                  /* the largest token that a client has used */
byte token[N];                     /* of the present hold, or in the message of a claim */
#define DRAW(c) counter++; token[c] = counter
#define USE(c)  assert(token[c] > largest); largest = token[c]
#else
#define DRAW(c) skip
#define USE(c)  skip
#endif
byte faults = 0;
bool slow = false;                 /* a fault that only a look after some time can repair */
byte done = 0;

#define believers() (believes[0] + believes[1] + believes[2])

/* Take client c out of the queue. */
inline remove(c) {
  if
  :: in_queue[c] ->
     i = 0;
     do
     :: queue[i] != c -> i++
     :: else -> break
     od;
     do
     :: i + 1 < size -> queue[i] = queue[i + 1]; i++
     :: else -> break
     od;
     size--; queue[size] = 0; in_queue[c] = false
  :: else
  fi
}

inline enqueue(c) {
  if
  :: !in_queue[c] -> queue[size] = c; size++; in_queue[c] = true
  :: else
  fi
}

/* The lock is free: it is the first client's that listens. */
inline grant() {
  holder = FREE;
  do
  :: size > 0 ->
     head = queue[0];
#ifndef M_DEAD_HEAD
     if
     :: !alive[head] -> remove(head)     /* its connection is gone: nobody listens */
     :: else ->
#endif
        if
#ifdef OTHERS
#ifdef M_LEFT_AGAIN
        :: left = true; others_turn = true
#else
        :: !left -> left = true; others_turn = true
#endif
#endif
        :: true ->
#ifdef M_NO_CLAIM
           skip
#else
           remove(head);
           holder = CLAIM(head);
#ifdef M_LAST_TOKEN
           token[head] = counter;
#else
           DRAW(head);
#endif
           in_time[head] = true; fresh[head] = true
#endif
        fi;
#ifndef M_NO_WAKE_UP
        if
        :: alive[head] -> message[head] = true
        :: else
        fi;
#endif
        break
#ifndef M_DEAD_HEAD
     fi
#endif
  :: else -> break
  od;
  i = 0; head = 0
}

/* Everybody before it in the queue, or all in it if it was not in the queue, is overtaken. */
inline count_overtaking(c) {
  i = 0;
  do
  :: i < size && queue[i] != c ->
     overtaken[queue[i]]++; assert(slow || overtaken[queue[i]] <= left); i++
  :: else -> break
  od;
  i = 0
}

/* lock_acquire: reply is true if client c holds the lock now, else it stands in the queue. */
inline acquire(c) {
  fresh[c] = false;
  if
  :: holder == HOLD(c) -> reply = true
  :: holder == FREE && size > 0 && !in_queue[c] ->
     reply = false; enqueue(c); message[c] = true     /* it looks again in a while */
  :: (holder == FREE && (size == 0 || in_queue[c])) || holder == CLAIM(c) ->
     if
     :: holder == FREE && !for_all -> count_overtaking(c)
     :: else                                          /* it was its turn when it was given */
     fi;
     others_turn = false; for_all = false;
     remove(c);
     overtaken[c] = 0;
#ifndef M_NO_TOKEN
     if
     :: holder == FREE -> DRAW(c)
     :: else                                          /* the release has drawn it */
     fi;
#endif
     holder = HOLD(c); reply = true
#ifdef M_NO_EXCLUSION
  :: holder == CLAIM((c + 1) % N) -> holder = HOLD(c); reply = true
#endif
  :: else ->
     reply = false;
#ifndef M_QUEUE_LATER
     enqueue(c)
#endif
  fi
}

inline release(what) {
  if
  :: holder == what -> grant()
  :: else
  fi
}

/* A claim has the client's holder id, as a hold has. So one release ends either. */
inline release_own(c) {
  if
  :: holder == HOLD(c) || holder == CLAIM(c) -> grant()
  :: else
  fi
}

/* lock_leave: the client waits no longer. */
inline leave(c) {
  remove(c);
#ifndef M_LEAVE_KEEPS
  if
  :: holder == FREE && size > 0 -> grant()          /* it was told to look in a while */
  :: else -> release(CLAIM(c))
  fi;
#endif
  overtaken[c] = 0
}

/* A client starts at once if the claim stands by its clock, and if no request of its own has run
 * since. The message of a stale claim is a hint. */
#ifdef M_TRUST_THE_MESSAGE
#define IN_TIME(c) true
#else
#define IN_TIME(c) in_time[c]
#endif
#ifndef DIRECT
#define MAY_START(c) false
#else
#ifdef M_STALE_MESSAGE
#define MAY_START(c) (IN_TIME(c) && !for_all)
#else
#define MAY_START(c) (IN_TIME(c) && fresh[c] && !for_all)
#endif
#endif

proctype Client(byte me) {
  byte turn = 0, i = 0, head = 0, looks = 0;
  bool reply = false;
  {
    do
    :: turn < TURNS ->
       atomic { turn++; waiting[me] = true };
ask:
       atomic { !cleaning[me] -> valid[me] = true };
       if
       :: atomic { acquire(me) }                                   /* the reply is read */
       :: atomic { faults < FAULTS -> faults++; acquire(me); goto ask }     /* it is lost */
       :: atomic { faults < FAULTS -> faults++; goto ask }       /* the request is lost */
       :: atomic { faults < FAULTS && !late[me] ->                /* or it will come late */
            faults++; slow = true; late[me] = true; goto ask }
       fi;
#ifdef M_QUEUE_LATER
       if
       :: !reply -> atomic { enqueue(me) }
       :: else
       fi;
#endif
       if
       :: reply ->
          atomic {
            reply = false; waiting[me] = false;
            if
#ifdef M_NO_VALIDITY
            :: true -> believes[me] = true; assert(believers() <= 1); USE(me)
#else
            :: valid[me] -> believes[me] = true; assert(believers() <= 1); USE(me)
            :: else
#endif
            fi
          };
work:
          atomic { believes[me] = false; by_claim[me] = false };
          if
          :: atomic { valid[me] = false; release_own(me) }
          :: atomic { faults < FAULTS -> faults++; release_own(me) };     /* the reply is lost */
             atomic { valid[me] = false; release_own(me) }
          fi
       :: else ->
          valid[me] = false;
wait:
          if
          :: atomic { message[me] -> message[me] = false; goto ask }          /* it is a hint */
          :: atomic { message[me] && MAY_START(me) -> message[me] = false; waiting[me] = false;
               valid[me] = true; by_claim[me] = true; believes[me] = true;
               assert(believers() <= 1); USE(me) };
confirm:
             if
             :: atomic { holder == CLAIM(me) || holder == HOLD(me) ->
                  holder = HOLD(me); overtaken[me] = 0;
                  if
                  :: by_claim[me] -> by_claim[me] = false
                  :: else -> skip           /* too late: it has counted as lost since the claim */
                  fi }
             :: atomic { holder != CLAIM(me) && holder != HOLD(me) ->
                  by_claim[me] = false; believes[me] = false }                 /* it is lost */
             :: atomic { faults < FAULTS -> faults++; goto confirm }      /* it is sent again */
             fi;
             goto work
          :: atomic { late_message[me] == 1 -> late_message[me] = 2; goto ask }
          :: atomic { timeout -> assert(slow); looks++; assert(looks <= LOOKS); goto ask }
          :: atomic { faults < FAULTS -> faults++; waiting[me] = false };  /* it gives up */
             atomic { leave(me) }
          fi
       fi
    :: else -> break
    od
  } unless { atomic { !alive[me] -> waiting[me] = false } };
  done++
}

/* A client that asks has one claim for all its holds. One that starts at once has a claim by the
 * holder id of its present wait. A request of an older hold has another id, and cannot take it. */
#ifdef DIRECT
#ifdef M_SAME_NUMBER
#define LATE_TAKES(c) (holder == FREE || holder == CLAIM(c))
#else
#define LATE_TAKES(c) (holder == FREE)
#endif
#else
#define LATE_TAKES(c) (holder == FREE || holder == CLAIM(c))
#endif

/* By the client's clock a claim ends no later than by the server's. */
#ifdef M_LONG_CLAIM
#define CLAIM_MAY_END(c) true
#else
#define CLAIM_MAY_END(c) (!in_time[c])
#endif

/* What the network, time and the operating system do to client c. */
#define WORLD(c) \
  :: atomic { late[c] -> late[c] = false; \
       if \
       :: LATE_TAKES(c) -> \
          others_turn = false; for_all = false; \
          remove(c); holder = LATE(c); cleaning[c] = true \
       :: else \
       fi } \
  :: atomic { cleaning[c] && alive[c] -> cleaning[c] = false; release(LATE(c)) } \
  :: atomic { holder == LATE(c) && !alive[c] -> holder = FREE } \
  :: atomic { message[c] && faults < FAULTS -> faults++; slow = true; message[c] = false } \
  :: atomic { message[c] && faults < FAULTS && !late_message[c] -> \
       faults++; slow = true; message[c] = false; late_message[c] = 1 } \
  :: atomic { late_message[c] -> late_message[c] = 0; message[c] = alive[c] } \
  :: atomic { in_time[c] && (!alive[c] || slow || faults < FAULTS) -> \
       if :: alive[c] && !slow -> faults++; slow = true :: else fi; \
       in_time[c] = false; \
       if :: by_claim[c] -> by_claim[c] = false; believes[c] = false :: else fi } \
  :: atomic { holder == CLAIM(c) && CLAIM_MAY_END(c) && (!alive[c] || slow || faults < FAULTS) -> \
       if :: alive[c] && !slow -> faults++; slow = true :: else fi; holder = FREE } \
  :: atomic { valid[c] && faults < FAULTS -> \
       faults++; slow = true; valid[c] = false; believes[c] = false } \
  :: atomic { holder == HOLD(c) && !valid[c] && slow -> holder = FREE } \
  :: atomic { alive[c] && faults < FAULTS -> \
       faults++; alive[c] = false; valid[c] = false; believes[c] = false; message[c] = false; \
       by_claim[c] = false; late_message[c] = 0; \
       if \
       :: holder == HOLD(c) || holder == CLAIM(c) || holder == LATE(c) || holder == FREE -> \
          slow = true \
       :: else \
       fi }

proctype World() {
  byte i = 0, head = 0;
end:
  do
  WORLD(0)
  WORLD(1)
  WORLD(2)
  :: atomic { holder == FREE && others_turn ->
       others_turn = false; count_overtaking(N); holder = OTHER }
  :: atomic { holder == OTHER -> holder = FREE; for_all = true;
       do
       :: i < size -> message[queue[i]] = alive[queue[i]]; i++
       :: else -> break
       od;
       i = 0 }
  :: atomic { done == N && timeout ->
       assert(holder == FREE); break }
  od
}

init {
  atomic { run Client(0); run Client(1); run Client(2); run World() }
}

