/* Renewals by a thread that needs no interpreter lock.

Theory. A thread of Python renews the holds. It gets no turn while another thread keeps the
interpreter lock, and then they would end. So a thread in C sends what that thread leaves undone. It
is a thread of the process itself, and so it stops when the process is stopped, and ends with it.
No other process could know so surely whether the holder lives.

Rules:

* The thread touches no object of Python. It needs bytes only, and each entry has its own.
* It renews a hold when half of its lease has passed since the last renewal that it knows of. Python
  renews after a third. So as long as Python gets its turns, nothing is sent from here.
* A hold whose validity has ended is not renewed. `sent_at` is read before the command is sent.
* A renewal counts only when Python has read it (`look`).
* The mutex of a line is kept for moments, and never while the server is waited for.
* An id names one entry for ever. An old id changes nothing.
* Python has a dict of the holds that are kept here. One call changes the dict and this table. So a
  signal handler finds a hold in both or in neither.
* TLS is that of Python's own `ssl`: native_tls.py gives its functions, and a context of OpenSSL.
* A forked child has no such thread, and perhaps a mutex that is locked for ever. So all functions
  do nothing there.
*/

#define PY_SSIZE_T_CLEAN
#define _GNU_SOURCE
#include <Python.h>
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define BATCH 100        /* holds that are renewed in one write */
#define LINE 256         /* bytes of a reply's line that are looked at */
#define STACK 262144     /* bytes of the thread's stack */
#define PIECE 16384      /* bytes that TLS sends at a time */
#define NAME "interlock._links._renewal.line"

#ifndef MSG_NOSIGNAL
#define MSG_NOSIGNAL 0 /* the thread blocks the signal, too */
#endif

struct text {
    char *bytes;
    size_t size;
};

/* What is used of OpenSSL, in the order of `FUNCTIONS` in native_tls.py. */
struct openssl {
    void (*free_context)(void *context);
    void *(*new_session)(void *context);
    void (*free_session)(void *session);
    int (*set_descriptor)(void *session, int fd);
    long (*session_control)(void *session, int what, long number, void *pointer);
    void *(*parameters_of_session)(void *session);
    int (*set_host)(void *parameters, const char *host, size_t size);
    int (*set_ip)(void *parameters, const char *ip);
    int (*shake_hands)(void *session);
    int (*read)(void *session, void *to, int size);
    int (*write)(void *session, const void *from, int size);
    void (*clear_errors)(void);
};

enum { HOST_NAME = 55 }; /* a number of OpenSSL's headers, which is part of its ABI */

/* One hold. `doubtful`: a command was sent that may still be executed. */
struct entry {
    struct text command;
    double until, sent_at, retry_at;
    unsigned generation, next_free;
    int used, gone, doubtful;
};

/* One server, its entries, and the thread that serves them. */
struct line {
    pthread_mutex_t mutex;
    pthread_cond_t bell;
    struct entry *entries;
    unsigned count, room, first_free, references; /* `first_free`: its place plus one */
    struct text login;
    int login_replies, closing, running;
    char *host, *port; /* no port: the host is the path of a socket */
    double lease, valid_for, timeout;
    pid_t process;
    struct openssl tls;
    void *context; /* none: no TLS */
    int checks_host;
};

/* A connection, and what was received on it and not read yet. */
struct reader {
    int fd;
    void *session; /* none: no TLS */
    const struct openssl *tls;
    char bytes[4096];
    ssize_t at, end;
};

enum outcome { BROKEN, REFUSED, GONE, KEPT };

/* The clock of `interlock._drivers.process.clock`. */
static double
now(void)
{
    struct timespec time;
#if defined(CLOCK_BOOTTIME)
    clock_gettime(CLOCK_BOOTTIME, &time);
#else
    clock_gettime(CLOCK_MONOTONIC, &time);
#endif
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static int
copied(struct text *to, const char *bytes, size_t size)
{
    to->bytes = malloc(size ? size : 1);
    if (to->bytes == NULL)
        return -1;
    memcpy(to->bytes, bytes, size);
    to->size = size;
    return 0;
}

/* The thread. */

/* Wait until the bell is rung or so many seconds have passed; a negative number: for ever. */
static void
wait_for_bell(struct line *line, double seconds)
{
    struct timespec time;

    if (seconds < 0) {
        pthread_cond_wait(&line->bell, &line->mutex);
        return;
    }
#ifdef __APPLE__
    time.tv_sec = (time_t)seconds;
    time.tv_nsec = (long)((seconds - (double)time.tv_sec) * 1e9);
    pthread_cond_timedwait_relative_np(&line->bell, &line->mutex, &time);
#else
    clock_gettime(CLOCK_MONOTONIC, &time);
    seconds += (double)time.tv_nsec * 1e-9;
    time.tv_sec += (time_t)seconds;
    time.tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9);
    pthread_cond_timedwait(&line->bell, &line->mutex, &time);
#endif
}

static double
due_at(const struct line *line, const struct entry *entry)
{
    double due = entry->until - line->lease / 2;
    return due > entry->retry_at ? due : entry->retry_at;
}

/* Return the seconds until an entry is due: 0 if one is, negative if there is none. */
static double
seconds_left(const struct line *line)
{
    double present = now(), first = -1, due;
    unsigned place;

    for (place = 0; place < line->count; place++) {
        const struct entry *entry = &line->entries[place];
        if (!entry->used || entry->gone || entry->until <= present)
            continue;
        due = due_at(line, entry);
        if (due <= present)
            return 0;
        if (due < entry->until && (first < 0 || due - present < first))
            first = due - present;
    }
    return first;
}

static void
set_limits(int fd, double seconds)
{
    struct timeval limit;

    limit.tv_sec = (time_t)seconds;
    limit.tv_usec = (suseconds_t)((seconds - (double)limit.tv_sec) * 1e6) + 1;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}

/* Return a socket that is connected to an address, or -1. */
static int
connected_to(int family, const struct sockaddr *address, socklen_t size, double seconds)
{
    int fd = socket(family, SOCK_STREAM, 0), problem = 0;
    socklen_t length = sizeof problem;
    struct pollfd polled = {fd, POLLOUT, 0};

    if (fd < 0)
        return -1;
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    fcntl(fd, F_SETFL, O_NONBLOCK);
    if (connect(fd, address, size) < 0
        && (errno != EINPROGRESS || poll(&polled, 1, (int)(seconds * 1e3) + 1) != 1
            || getsockopt(fd, SOL_SOCKET, SO_ERROR, &problem, &length) < 0 || problem != 0)) {
        close(fd);
        return -1;
    }
    fcntl(fd, F_SETFL, 0);
    set_limits(fd, seconds);
    return fd;
}

/* Return a socket that is connected to the server, or -1. */
static int
connected(const struct line *line)
{
    struct sockaddr_un path = {.sun_family = AF_UNIX};
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found, *each;
    int fd = -1;

    if (line->port == NULL) {
        if (strlen(line->host) >= sizeof path.sun_path)
            return -1;
        strcpy(path.sun_path, line->host);
        return connected_to(AF_UNIX, (struct sockaddr *)&path, sizeof path, line->timeout);
    }
    if (getaddrinfo(line->host, line->port, &hints, &found) != 0)
        return -1;
    for (each = found; each != NULL && fd < 0; each = each->ai_next)
        fd = connected_to(each->ai_family, each->ai_addr, each->ai_addrlen, line->timeout);
    freeaddrinfo(found);
    return fd;
}

/* Return a session of TLS with the server, whose name was checked; NULL if there is none. */
static void *
greeted(const struct line *line, int fd)
{
    const struct openssl *tls = &line->tls;
    char address[sizeof(struct in6_addr)];
    void *session, *parameters;
    int is_ip, good;

    tls->clear_errors();
    session = tls->new_session(line->context);
    if (session == NULL)
        return NULL;
    parameters = tls->parameters_of_session(session);
    is_ip = inet_pton(AF_INET, line->host, address) == 1
            || inet_pton(AF_INET6, line->host, address) == 1;
    good = tls->set_descriptor(session, fd) == 1
           && (is_ip || tls->session_control(session, HOST_NAME, 0, line->host) == 1);
    if (good && line->checks_host)
        good = is_ip ? tls->set_ip(parameters, line->host)
                     : tls->set_host(parameters, line->host, strlen(line->host));
    if (good != 1 || tls->shake_hands(session) != 1) {
        tls->free_session(session);
        return NULL;
    }
    return session;
}

static void
hang_up(struct reader *reader)
{
    if (reader->session != NULL)
        reader->tls->free_session(reader->session);
    if (reader->fd >= 0)
        close(reader->fd);
    reader->session = NULL;
    reader->fd = -1;
}

static int
sent(const struct reader *reader, const struct text *text)
{
    size_t at = 0, left;

    while (at < text->size) {
        ssize_t done;
        left = text->size - at;
        if (reader->session == NULL)
            done = send(reader->fd, text->bytes + at, left, MSG_NOSIGNAL);
        else
            done = reader->tls->write(reader->session, text->bytes + at,
                                      left < PIECE ? (int)left : PIECE);
        if (done <= 0)
            return 0;
        at += (size_t)done;
    }
    return 1;
}

static ssize_t
received(struct reader *reader)
{
    if (reader->session == NULL)
        return recv(reader->fd, reader->bytes, sizeof reader->bytes, 0);
    return reader->tls->read(reader->session, reader->bytes, (int)sizeof reader->bytes);
}

/* Read a line without its end mark, and as much of it as fits; return whether there is one. */
static int
line_of(struct reader *reader, char *to)
{
    size_t size = 0;
    char byte = 0;

    do {
        if (reader->at == reader->end) {
            reader->end = received(reader);
            reader->at = 0;
            if (reader->end <= 0) {
                reader->end = 0;
                return 0;
            }
        }
        byte = reader->bytes[reader->at++];
        if (byte != '\n' && byte != '\r' && size < LINE - 1)
            to[size++] = byte;
    } while (byte != '\n');
    to[size] = 0;
    return 1;
}

/* Return what the reply to a renewal says: a list with one number, or an error. */
static enum outcome
outcome_of(struct reader *reader)
{
    char text[LINE];

    if (!line_of(reader, text))
        return BROKEN;
    if (text[0] == '-')
        return REFUSED;
    if (strcmp(text, "*1") != 0 || !line_of(reader, text))
        return BROKEN;
    return strcmp(text, ":1") == 0 ? KEPT : strcmp(text, ":0") == 0 ? GONE : BROKEN;
}

/* Return whether the server has taken the login, of which the caller has a copy. */
static int
logged_in(struct reader *reader, const struct text *login, int replies)
{
    char text[LINE];

    if (!sent(reader, login))
        return 0;
    while (replies-- > 0)
        if (!line_of(reader, text) || text[0] != '+')
            return 0;
    return 1;
}

/* Return the id of an entry. */
static unsigned long long
id_of(const struct line *line, const struct entry *entry)
{
    return (unsigned long long)entry->generation << 32 | (unsigned)(entry - line->entries);
}

/* Return the entry that an id names; NULL if it was forgotten. */
static struct entry *
entry_of(struct line *line, unsigned long long id)
{
    unsigned place = (unsigned)(id & 0xffffffffu);
    struct entry *entry = place < line->count ? &line->entries[place] : NULL;

    return entry != NULL && entry->used && entry->generation == id >> 32 ? entry : NULL;
}

/* Write the commands of the entries that are due, and the ids of these. */
static unsigned
collect(struct line *line, double present, int fd, struct text *batch, unsigned long long *ids)
{
    unsigned place, count = 0;
    struct entry *entry;
    char *grown;

    for (place = 0; place < line->count && count < BATCH; place++) {
        entry = &line->entries[place];
        if (!entry->used || entry->gone || entry->until <= present
            || due_at(line, entry) > present)
            continue;
        entry->retry_at = present + line->lease / 20;
        if (fd < 0)
            continue; /* it is tried again then */
        grown = realloc(batch->bytes, batch->size + entry->command.size);
        if (grown == NULL)
            break;
        batch->bytes = grown;
        memcpy(grown + batch->size, entry->command.bytes, entry->command.size);
        batch->size += entry->command.size;
        entry->doubtful = 1;
        ids[count++] = id_of(line, entry);
    }
    return count;
}

/* Note what the server has said of an entry, unless it was forgotten meanwhile. */
static void
note(struct line *line, unsigned long long id, enum outcome outcome, double sent_at)
{
    struct entry *entry = entry_of(line, id);

    if (entry == NULL)
        return;
    if (outcome != BROKEN)
        entry->doubtful = 0;
    if (outcome == GONE)
        entry->gone = 1;
    if (outcome == KEPT) {
        entry->sent_at = sent_at;
        if (entry->until < sent_at + line->valid_for)
            entry->until = sent_at + line->valid_for;
        entry->retry_at = 0;
    }
}

/* Connect, and log in; without success the reader has no descriptor. */
static void
reach(struct line *line, struct reader *reader)
{
    struct text login = {NULL, 0};
    int replies, well;

    pthread_mutex_lock(&line->mutex);
    well = copied(&login, line->login.bytes, line->login.size) == 0;
    replies = line->login_replies;
    pthread_mutex_unlock(&line->mutex);
    reader->fd = well ? connected(line) : -1;
    if (reader->fd >= 0 && line->context != NULL) {
        reader->session = greeted(line, reader->fd);
        well = reader->session != NULL;
    }
    if (reader->fd >= 0 && !(well && logged_in(reader, &login, replies)))
        hang_up(reader);
    free(login.bytes);
}

/* Renew what is due, on a connection of its own. */
static void
renew(struct line *line)
{
    unsigned long long ids[BATCH];
    unsigned count, each;
    struct reader reader = {.fd = -1, .tls = &line->tls};
    struct text batch = {NULL, 0};
    enum outcome outcome;
    double present;
    int well;

    reach(line, &reader);

    pthread_mutex_lock(&line->mutex);
    present = now();
    count = collect(line, present, reader.fd, &batch, ids);
    pthread_mutex_unlock(&line->mutex);
    well = count > 0 && sent(&reader, &batch);
    free(batch.bytes);
    for (each = 0; each < count; each++) {
        outcome = well ? outcome_of(&reader) : BROKEN;
        well = outcome != BROKEN;
        pthread_mutex_lock(&line->mutex);
        note(line, ids[each], outcome, present);
        pthread_mutex_unlock(&line->mutex);
    }
    hang_up(&reader);
}

/* Give a reference up; the last one frees the line. */
static void
drop(struct line *line)
{
    unsigned left, place;

    pthread_mutex_lock(&line->mutex);
    left = --line->references;
    pthread_mutex_unlock(&line->mutex);
    if (left > 0)
        return;
    for (place = 0; place < line->count; place++)
        free(line->entries[place].command.bytes);
    pthread_mutex_destroy(&line->mutex);
    pthread_cond_destroy(&line->bell);
    if (line->context != NULL)
        line->tls.free_context(line->context);
    free(line->login.bytes);
    free(line->entries);
    free(line->host);
    free(line->port);
    free(line);
}

static void *
serve(void *given)
{
    struct line *line = given;
    double left;

    pthread_mutex_lock(&line->mutex);
    while (!line->closing) {
        left = seconds_left(line);
        if (left != 0) {
            /* Not for long at a time: this wait does not count the time of a suspended machine. */
            wait_for_bell(line, left > line->lease / 8 ? line->lease / 8 : left);
            continue;
        }
        pthread_mutex_unlock(&line->mutex);
        renew(line);
        pthread_mutex_lock(&line->mutex);
    }
    pthread_mutex_unlock(&line->mutex);
    drop(line);
    return NULL;
}

/* Start the thread, with all signals blocked: they are for the threads of Python. */
static int
started(struct line *line)
{
    sigset_t all, before;
    pthread_attr_t attributes;
    pthread_t thread;
    int problem;

    sigfillset(&all);
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, STACK);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    problem = pthread_create(&thread, &attributes, serve, line);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return problem == 0;
}

/* What Python calls. */

/* Return the line with its mutex locked; NULL with an exception, or without one in a child. */
static struct line *
locked(PyObject *capsule)
{
    struct line *line = PyCapsule_GetPointer(capsule, NAME);

    if (line == NULL || line->process != getpid())
        return NULL;
    pthread_mutex_lock(&line->mutex);
    return line;
}

static PyObject *
nothing(void)
{
    if (PyErr_Occurred())
        return NULL;
    Py_INCREF(Py_None); /* as `none` in _exchange.c */
    return Py_None;
}

static void
destroy(PyObject *capsule)
{
    struct line *line = PyCapsule_GetPointer(capsule, NAME);

    if (line == NULL || line->process != getpid())
        return;
    pthread_mutex_lock(&line->mutex);
    line->closing = 1;
    pthread_cond_signal(&line->bell);
    pthread_mutex_unlock(&line->mutex);
    drop(line);
}

static PyObject *
line(PyObject *Py_UNUSED(module), PyObject *args)
{
    const char *host, *port;
    struct line *made;
    pthread_condattr_t clock;
    PyObject *capsule;
    double lease, valid_for, timeout;

    if (!PyArg_ParseTuple(args, "yzddd", &host, &port, &lease, &valid_for, &timeout))
        return NULL;
    made = calloc(1, sizeof *made);
    if (made == NULL)
        return PyErr_NoMemory();
    pthread_mutex_init(&made->mutex, NULL);
    pthread_condattr_init(&clock);
#ifndef __APPLE__
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
#endif
    pthread_cond_init(&made->bell, &clock);
    pthread_condattr_destroy(&clock);
    made->references = 1;
    made->process = getpid();
    made->lease = lease;
    made->valid_for = valid_for;
    made->timeout = timeout;
    made->host = strdup(host);
    made->port = port == NULL ? NULL : strdup(port);
    if (made->host == NULL || (port != NULL && made->port == NULL)) {
        drop(made);
        return PyErr_NoMemory();
    }
    capsule = PyCapsule_New(made, NAME, destroy);
    if (capsule == NULL)
        drop(made);
    return capsule;
}

static PyObject *
log_in_by(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *capsule;
    const char *bytes;
    Py_ssize_t size;
    struct line *line;
    struct text login;
    int replies;

    if (!PyArg_ParseTuple(args, "Oy#i", &capsule, &bytes, &size, &replies))
        return NULL;
    if (copied(&login, bytes, (size_t)size) < 0)
        return PyErr_NoMemory();
    line = locked(capsule);
    if (line == NULL) {
        free(login.bytes);
        return nothing();
    }
    free(line->login.bytes);
    line->login = login;
    line->login_replies = replies;
    pthread_mutex_unlock(&line->mutex);
    return nothing();
}

static PyObject *
use_tls(PyObject *Py_UNUSED(module), PyObject *args)
{
    struct openssl tls;
    PyObject *capsule;
    const char *functions;
    Py_ssize_t size;
    struct line *line;
    unsigned long long context;
    int checks_host;

    if (!PyArg_ParseTuple(args, "Oy#Kp", &capsule, &functions, &size, &context, &checks_host))
        return NULL;
    if (size != (Py_ssize_t)sizeof tls) {
        PyErr_SetString(PyExc_ValueError, "not the functions of OpenSSL that are used here");
        return NULL;
    }
    memcpy(&tls, functions, sizeof tls);
    line = locked(capsule);
    if (line == NULL || line->running || line->context != NULL) {
        tls.free_context((void *)(uintptr_t)context);
        if (line != NULL)
            pthread_mutex_unlock(&line->mutex);
        return nothing();
    }
    line->tls = tls;
    line->context = (void *)(uintptr_t)context;
    line->checks_host = checks_host;
    pthread_mutex_unlock(&line->mutex);
    return nothing();
}

/* Return an entry that is not used; NULL if there is no room for one. */
static struct entry *
unused(struct line *line)
{
    struct entry *grown, *entry;

    if (line->first_free > 0) {
        entry = &line->entries[line->first_free - 1];
        line->first_free = entry->next_free;
        return entry;
    }
    if (line->count == line->room) {
        grown = realloc(line->entries, (line->room + 16) * 2 * sizeof *grown);
        if (grown == NULL)
            return NULL;
        line->entries = grown;
        line->room = (line->room + 16) * 2;
    }
    entry = &line->entries[line->count++];
    memset(entry, 0, sizeof *entry);
    return entry;
}

/* Make an entry unused. */
static void
discard(struct line *line, struct entry *entry)
{
    free(entry->command.bytes);
    entry->command.bytes = NULL;
    entry->used = 0;
    entry->generation++;
    entry->next_free = line->first_free;
    line->first_free = (unsigned)(entry - line->entries) + 1;
}

/* Note in *kept* that *hold* has the entry with *id*, unless it has another one.

   Return whether that was noted, or -1 with an exception set. */
static int
noted(PyObject *kept, PyObject *hold, PyObject *capsule, unsigned long long id)
{
    PyObject *where = Py_BuildValue("(OK)", capsule, id), *there;
    int result;

    if (where == NULL)
        return -1;
    there = PyObject_CallMethod(kept, "setdefault", "OO", hold, where);
    result = there == NULL ? -1 : there == where;
    Py_XDECREF(there);
    Py_DECREF(where);
    return result;
}

static PyObject *
keep(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *capsule, *kept, *hold;
    const char *bytes;
    Py_ssize_t size;
    unsigned long long id = 0;
    struct entry *entry;
    struct text command;
    struct line *line;
    double until;

    if (!PyArg_ParseTuple(args, "OOOy#d", &kept, &hold, &capsule, &bytes, &size, &until))
        return NULL;
    if (copied(&command, bytes, (size_t)size) < 0)
        return PyErr_NoMemory();
    line = locked(capsule);
    if (line == NULL) {
        free(command.bytes);
        return nothing();
    }
    entry = unused(line);
    if (entry != NULL && !line->running && !line->closing) {
        line->references++;
        line->running = started(line);
        if (!line->running) {
            line->references--;
            discard(line, entry);
            entry = NULL;
        }
    }
    if (entry != NULL) {
        entry->generation++;
        entry->used = 1;
        entry->gone = entry->doubtful = 0;
        entry->sent_at = entry->retry_at = 0;
        entry->until = until;
        entry->command = command;
        id = id_of(line, entry);
        pthread_cond_signal(&line->bell);
    }
    pthread_mutex_unlock(&line->mutex);
    if (entry == NULL) {
        free(command.bytes);
        PyErr_SetString(PyExc_RuntimeError, "no thread or memory to renew locks with");
    }
    else if (noted(kept, hold, capsule, id) != 1) {
        line = locked(capsule);
        entry = entry_of(line, id);
        if (entry != NULL)
            discard(line, entry);
        pthread_mutex_unlock(&line->mutex);
    }
    return nothing();
}

/* Return the entry that is *where*, and lock its line. Without one, return NULL. */
static struct entry *
entry_at(PyObject *where, struct line **line)
{
    struct entry *entry = NULL;
    unsigned long long id;
    PyObject *capsule;

    if (where == NULL) {
        if (PyErr_ExceptionMatches(PyExc_KeyError))
            PyErr_Clear();
        return NULL;
    }
    if (!PyArg_ParseTuple(where, "OK", &capsule, &id))
        return NULL;
    *line = locked(capsule);
    if (*line != NULL) {
        entry = entry_of(*line, id);
        if (entry == NULL)
            pthread_mutex_unlock(&(*line)->mutex);
    }
    return entry;
}

static PyObject *
extend(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *kept, *hold, *where;
    struct entry *entry;
    struct line *line;
    double until;
    int known = 0;

    if (!PyArg_ParseTuple(args, "OOd", &kept, &hold, &until))
        return NULL;
    where = PyObject_GetItem(kept, hold);
    entry = entry_at(where, &line);
    if (entry != NULL) {
        known = !entry->gone;
        if (known && entry->until < until)
            entry->until = until;
        pthread_mutex_unlock(&line->mutex);
    }
    Py_XDECREF(where);
    return PyErr_Occurred() ? NULL : PyBool_FromLong(known);
}

/* The record is taken out first: so of two threads one has it, and no later record is lost. */
static PyObject *
forget(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *kept, *hold, *where;
    struct entry *entry;
    struct line *line;
    int doubtful = 0;

    if (!PyArg_ParseTuple(args, "OO", &kept, &hold))
        return NULL;
    where = PyObject_CallMethod(kept, "pop", "O", hold);
    entry = entry_at(where, &line);
    if (entry != NULL) {
        doubtful = entry->doubtful;
        discard(line, entry);
        pthread_mutex_unlock(&line->mutex);
    }
    Py_XDECREF(where);
    return PyErr_Occurred() ? NULL : PyBool_FromLong(doubtful);
}

static PyObject *
look(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *kept, *hold, *where;
    struct entry *entry;
    struct line *line;
    double sent_at = 0;

    if (!PyArg_ParseTuple(args, "OO", &kept, &hold))
        return NULL;
    where = PyObject_GetItem(kept, hold);
    entry = entry_at(where, &line);
    if (entry != NULL) {
        sent_at = entry->sent_at;
        pthread_mutex_unlock(&line->mutex);
    }
    Py_XDECREF(where);
    return PyErr_Occurred() ? NULL : PyFloat_FromDouble(sent_at);
}

static PyObject *
clock_now(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(unused))
{
    return PyFloat_FromDouble(now());
}

static PyMethodDef methods[] = {
    {"line", line, METH_VARARGS, "Return a line to a server; its thread starts with `keep`."},
    {"use_tls", use_tls, METH_VARARGS, "Encrypt by a context, which is freed here."},
    {"log_in_by", log_in_by, METH_VARARGS, "Set the commands that log in, and their number."},
    {"keep", keep, METH_VARARGS, "Renew a hold from now on."},
    {"extend", extend, METH_VARARGS, "Note a later end; return whether the hold is kept."},
    {"forget", forget, METH_VARARGS, "Stop renewing; return whether a command is under way."},
    {"look", look, METH_VARARGS, "Return when the last renewal of a hold was sent; 0: none was."},
    {"now", clock_now, METH_NOARGS, "Return the time by which validity is measured here."},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {
#if PY_VERSION_HEX >= 0x030C0000 && !defined(Py_LIMITED_API)
    {Py_mod_multiple_interpreters, Py_MOD_PER_INTERPRETER_GIL_SUPPORTED},
#endif
#if PY_VERSION_HEX >= 0x030D0000 && !defined(Py_LIMITED_API)
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
    {0, NULL},
};

#ifndef SOURCE
#define SOURCE "unknown"
#endif

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "interlock._links._renewal",
    .m_doc = SOURCE,
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC
PyInit__renewal(void)
{
    return PyModuleDef_Init(&module);
}
