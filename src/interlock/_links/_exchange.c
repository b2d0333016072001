/* Sending to a server and receiving from it on a blocking socket, without the interpreter lock.

And what the hot path asks for most often: the clock, and what the calling thread keeps. `receive`
lets the threads of a client take turns at one socket.

Theory. A socket's send and recv each give up the interpreter lock and take it back. With several
threads at work that is two waits for it in each round trip, of which only the second is of any use:
between the two there is nothing to interpret.

Rules:

* One system call both waits and reads, because the socket has SO_RCVTIMEO and SO_SNDTIMEO.
  A signal ends such a call early, and the next one would wait as long again. So from the first
  signal on poll() waits, for what is left of the time.
* `parse_all` reads any replies of RESP2, and keeps nothing between two calls. So threads, signal
  handlers and finalizers may call it at any time.
* Threads share nothing here. `Answers` belongs to the thread of one event loop.
  References are borrowed only from arguments that cannot change: bytes, texts, numbers, tuples.
* The errors are those of `exchange_in_python` in exchange.py.
  Signals are handled as PEP 475 says.
* `ask` reads the replies that locks get nearly always: nil, a number, or a list without an error.
  They must be whole and alone. Of all others it returns the bytes, for the parser.
* `packed` makes a command of texts and small numbers. It leaves all else to Python.
* A `Whole` calls one function, and another one if that fails. No signal handler runs in between:
  handlers run only while Python code runs.
*/

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <structmember.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <time.h>

#define CHUNK 16384 /* a lock's replies have 40 bytes at the most */
#define DIGITS 19   /* of a number: what has more does not fit into 64 bits */
#define DEEPEST 16  /* lists in lists */
#define HEAD 24     /* bytes of a number's line */
#define LONGEST (1LL << 30) /* bytes of a text, or replies in a list */
#define SHORTEST 3  /* bytes of a reply */

/* Return None. Not Py_RETURN_NONE: with the headers of 3.12 it adds no reference. Python 3.11 may
   load the same file, and would lose one each time. */
static PyObject *
none(void)
{
    Py_INCREF(Py_None);
    return Py_None;
}

static double
now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/* Wait until the socket is ready, at most until the deadline.

   Return 0, or -1 and set errno; EAGAIN means that time is up. */
static int
wait_for(int fd, short events, double deadline)
{
    struct pollfd polled = {fd, events, 0};
    double left = deadline - now();
    int ready = left > 0 ? poll(&polled, 1, left < 1e6 ? (int)(left * 1e3) + 1 : 1000000000) : 0;
    if (ready == 0)
        errno = EAGAIN;
    return ready > 0 ? 0 : -1;
}

/* Send *data*, then receive into *reply* unless it is NULL.

   Return the size received, or -1 with an exception set. */
static ssize_t
transfer(int fd, const char *data, Py_ssize_t size, char *reply, double seconds)
{
    double deadline = now() + seconds;
    Py_ssize_t sent = 0;
    ssize_t done;
    int struck = 0, problem;

    for (;;) {
        Py_BEGIN_ALLOW_THREADS
        done = 0;
        if (struck)
            done = wait_for(fd, sent < size ? POLLOUT : POLLIN, deadline);
        if (done == 0 && sent < size) {
            done = send(fd, data + sent, size - sent, struck ? MSG_DONTWAIT : 0);
            if (done > 0)
                sent += done;
        }
        if (done >= 0 && sent == size && reply != NULL)
            done = recv(fd, reply, CHUNK, struck ? MSG_DONTWAIT : 0);
        problem = errno;
        Py_END_ALLOW_THREADS
        if (done >= 0 && sent == size)
            return done;
        if (done < 0 && problem == EAGAIN && struck && now() < deadline)
            continue; /* it was ready for writing only, or somebody else was faster */
        if (done < 0 && problem != EINTR) {
            errno = problem;
            PyErr_SetFromErrno(PyExc_OSError);
            return -1;
        }
        /* A signal, which may also have ended a send in the middle. */
        struck = 1;
        if (PyErr_CheckSignals() < 0)
            return -1;
    }
}

/* Return what *method* returns, a small number, or -1, perhaps with an exception set. */
static int
number_from(PyObject *method)
{
    PyObject *answer = PyObject_CallNoArgs(method);
    long number = answer == NULL ? -1 : PyLong_AsLong(answer);

    Py_XDECREF(answer);
    return (int)number;
}

/* Send and receive as `transfer` does, with the arguments from Python: a socket's method `fileno`,
   bytes and seconds. Looking that method up would cost more than all else here. */
static ssize_t
asked(PyObject *const *args, Py_ssize_t nargs, char *reply)
{
    char *data;
    Py_ssize_t size;
    double seconds;
    int fd;

    if (nargs != 3) {
        PyErr_SetString(PyExc_TypeError, "(fileno, bytes, seconds)");
        return -1;
    }
    seconds = PyFloat_AsDouble(args[2]);
    if ((seconds == -1.0 && PyErr_Occurred())
        || PyBytes_AsStringAndSize(args[1], &data, &size) < 0)
        return -1;
    fd = number_from(args[0]);
    if (fd < 0 && !PyErr_Occurred()) {
        errno = EBADF; /* it is closed */
        PyErr_SetFromErrno(PyExc_OSError);
    }
    return fd < 0 ? -1 : transfer(fd, data, size, reply, seconds);
}

static PyObject *
exchange(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t nargs)
{
    char reply[CHUNK];
    ssize_t received = asked(args, nargs, reply);

    return received < 0 ? NULL : PyBytes_FromStringAndSize(reply, received);
}

/* Read a number and the end of its line; return where that ends, NULL if there is none. */
static const char *
digits(const char *at, const char *end, long long *number)
{
    int negative = at < end && *at == '-';
    const char *first = at += negative;
    unsigned long long size = 0;

    while (at < end && *at >= '0' && *at <= '9' && at - first < DIGITS)
        size = size * 10 + (*at++ - '0');
    if (at == first || end - at < 2 || at[0] != '\r' || at[1] != '\n')
        return NULL;
    if (size > (unsigned long long)LLONG_MAX + (unsigned)negative)
        return NULL;
    *number = (long long)(negative ? 0 - size : size);
    return at + 2;
}

/* Return where the line ends, behind its end mark; NULL if it is not whole. */
static const char *
line_end(const char *at, const char *end)
{
    while (at < end && (at = memchr(at, '\r', end - at)) != NULL) {
        if (end - at >= 2 && at[1] == '\n')
            return at + 2;
        at++;
    }
    return NULL;
}

/* Return where the reply ends that begins at *at*.

   NULL means that it is not whole, and *missing* says how many bytes are missing at least. It is
   negative if this is no reply. */
static const char *
reply_end(const char *at, const char *end, int depth, Py_ssize_t *missing)
{
    const char *line, *next;
    long long count;

    *missing = 1;
    if (at >= end)
        return NULL;
    if (memchr("+-:$*", *at, 5) == NULL || depth > DEEPEST) {
        *missing = -1;
        return NULL;
    }
    line = line_end(at, end);
    if (*at == '+' || *at == '-')
        return line;
    if (line == NULL) {
        if (end - at > HEAD)
            *missing = -1;
        return NULL;
    }
    if (digits(at + 1, line, &count) != line || (*at != ':' && count < -1)
        || (*at != ':' && count > LONGEST)) {
        *missing = -1;
        return NULL;
    }
    if (*at == ':' || count == -1)
        return line;
    if (*at == '$') {
        if (end - line >= count + 2) {
            if (memcmp(line + count, "\r\n", 2) == 0)
                return line + count + 2;
            *missing = -1;
        }
        else
            *missing = (Py_ssize_t)(count + 2 - (end - line));
        return NULL;
    }
    for (next = line; count > 0; count--) {
        next = reply_end(line = next, end, depth + 1, missing);
        if (next == NULL) {
            if (*missing > 0)
                *missing += (Py_ssize_t)(count - 1) * SHORTEST;
            return NULL;
        }
    }
    return next;
}

/* Return the reply that begins at *at*, and move *at* to its end. It is known to be whole.

   NULL without an exception means that it has an error, and that *error* is NULL. */
static PyObject *
value_at(const char **at, const char *end, PyObject *error)
{
    const char *begin = *at + 1;
    PyObject *value, *item;
    long long count = 0;
    Py_ssize_t place;

    *at = line_end(begin, end);
    if (begin[-1] == '+')
        return PyBytes_FromStringAndSize(begin, *at - begin - 2);
    if (begin[-1] == '-') {
        if (error == NULL)
            return NULL;
        item = PyUnicode_DecodeUTF8(begin, *at - begin - 2, "replace");
        value = item == NULL ? NULL : PyObject_CallFunctionObjArgs(error, item, NULL);
        Py_XDECREF(item);
        return value;
    }
    (void)digits(begin, end, &count);
    if (begin[-1] == ':')
        return PyLong_FromLongLong(count);
    if (count < 0) {
        return none();
    }
    if (begin[-1] == '$') {
        begin = *at;
        *at = begin + count + 2;
        return PyBytes_FromStringAndSize(begin, (Py_ssize_t)count);
    }
    value = PyList_New((Py_ssize_t)count);
    for (place = 0; value != NULL && place < count; place++) {
        item = value_at(at, end, error);
        if (item == NULL || PyList_SetItem(value, place, item) < 0)
            Py_CLEAR(value);
    }
    return value;
}

/* Append *value* to a list, and give it away. Return 0, or -1 with an exception set. */
static int
put(PyObject *list, PyObject *value)
{
    int good = value == NULL ? -1 : PyList_Append(list, value);
    Py_XDECREF(value);
    return good;
}

/* Return a list of all whole replies, if nothing else follows them. Otherwise return the list,
   where they end, and how many bytes the next reply lacks at least: -1 if it is no reply. */
static PyObject *
parse_all(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t nargs)
{
    Py_ssize_t size, missing = 0;
    const char *at, *end, *next;
    PyObject *values;
    char *begin;

    if (nargs != 2) {
        PyErr_SetString(PyExc_TypeError, "(bytes, error)");
        return NULL;
    }
    if (PyBytes_AsStringAndSize(args[0], &begin, &size) < 0 || (values = PyList_New(0)) == NULL)
        return NULL;
    for (at = begin, end = begin + size; at < end; at = next) {
        next = reply_end(at, end, 0, &missing);
        if (next == NULL)
            return Py_BuildValue("(Nnn)", values, (Py_ssize_t)(at - begin), missing);
        if (put(values, value_at(&at, end, args[1])) < 0) {
            Py_DECREF(values);
            return NULL;
        }
    }
    return values;
}

/* Return the reply if it is nil, a number or a list without an error, else its bytes. */
static PyObject *
parsed(const char *reply, Py_ssize_t size)
{
    const char *at = reply, *end = reply + size;
    long long number;
    Py_ssize_t missing;
    PyObject *list;

    if (size == 5 && memcmp(reply, "$-1\r\n", 5) == 0) {
        return none();
    }
    if (size > 3 && reply[0] == ':' && digits(reply + 1, end, &number) == end)
        return PyLong_FromLongLong(number);
    if (size > 3 && reply[0] == '*' && reply_end(reply, end, 0, &missing) == end) {
        list = value_at(&at, end, NULL);
        if (list != NULL || PyErr_Occurred())
            return list;
    }
    return PyBytes_FromStringAndSize(reply, size);
}

/* Write a command's part, or nothing if *to* is NULL; return its size, -1 if it is not plain. */
static Py_ssize_t
part(PyObject *value, char *to)
{
    char number[24], head[24];
    const char *text = number;
    Py_ssize_t size, before;
    long long integer;

    if (PyUnicode_CheckExact(value)) {
        text = PyUnicode_AsUTF8AndSize(value, &size);
        if (text == NULL)
            return -1;
    }
    else if (PyLong_CheckExact(value)) {
        integer = PyLong_AsLongLong(value);
        if (integer == -1 && PyErr_Occurred())
            return -1;
        size = snprintf(number, sizeof number, "%lld", integer);
    }
    else
        return -1;
    before = snprintf(head, sizeof head, "$%zd\r\n", size);
    if (to != NULL) {
        memcpy(to, head, before);
        memcpy(to + before, text, size);
        memcpy(to + before + size, "\r\n", 2);
    }
    return before + size + 2;
}

/* Return the bytes of a command of texts and numbers; None if it has anything else. */
static PyObject *
packed(PyObject *Py_UNUSED(module), PyObject *parts)
{
    char head[24], *to;
    Py_ssize_t count, place, size, one;
    PyObject *whole;

    if (!PyTuple_Check(parts)) {
        PyErr_SetString(PyExc_TypeError, "a tuple");
        return NULL;
    }
    count = PyTuple_Size(parts);
    size = snprintf(head, sizeof head, "*%zd\r\n", count);
    for (place = 0; place < count; place++) {
        one = part(PyTuple_GetItem(parts, place), NULL);
        if (one < 0) {
            PyErr_Clear();
            return none();
        }
        size += one;
    }
    whole = PyBytes_FromStringAndSize(NULL, size);
    if (whole == NULL)
        return NULL;
    to = PyBytes_AsString(whole);
    size = strlen(head);
    memcpy(to, head, size);
    for (place = 0; place < count; place++)
        size += part(PyTuple_GetItem(parts, place), to + size);
    return whole;
}

static PyObject *
ask(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t nargs)
{
    char reply[CHUNK];
    ssize_t received = asked(args, nargs, reply);

    return received < 0 ? NULL : parsed(reply, received);
}

static PyObject *
send_all(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t nargs)
{
    if (asked(args, nargs, NULL) < 0)
        return NULL;
    return none();
}

#define SHORT 512 /* bytes of a reply that `exchange_all` reads */
#define MOST 256  /* servers that it asks */

/* What one server is sent, and has replied. It is *over* when that is whole, or came to its end. */
typedef struct {
    const char *data;
    Py_ssize_t size, sent, received;
    int fd, over;
    char reply[SHORT];
} Asked;

/* Go on with one server as far as that takes no time: send, and then receive if *receives*. */
static void
proceed(Asked *one, int receives)
{
    ssize_t done = 0;

    while (one->sent < one->size) {
        done = send(one->fd, one->data + one->sent, one->size - one->sent, MSG_DONTWAIT);
        if (done < 0)
            break;
        one->sent += done;
    }
    if (done >= 0 && receives) {
        done = recv(one->fd, one->reply, SHORT, MSG_DONTWAIT);
        one->received = done > 0 ? done : 0;
    }
    one->over = done >= 0 ? receives : errno != EAGAIN && errno != EINTR;
}

/* Wait until all servers have replied, or until the deadline. Once *least* of them have replied, it
   is *linger* seconds later, or as much later as these took, if it was not earlier anyway.

   Return 0, or -1 if a signal came. */
static int
hear_all(Asked *all, int count, double began, double *deadline, long *least, double linger)
{
    struct pollfd polled[MOST];
    int places[MOST], place, waiting, ready, milliseconds;
    double end, time, left;

    for (;;) {
        for (place = waiting = 0; place < count; place++)
            if (!all[place].over) {
                polled[waiting].fd = all[place].fd;
                polled[waiting].events = all[place].sent < all[place].size ? POLLOUT : POLLIN;
                places[waiting++] = place;
            }
        if (waiting == 0)
            return 0;
        time = now();
        if (count - waiting >= *least) {
            *least = count + 1;
            end = time + (time - began > linger ? time - began : linger);
            *deadline = end < *deadline ? end : *deadline;
        }
        left = *deadline - time;
        if (left <= 0)
            return 0;
        milliseconds = left < 1e6 ? (int)(left * 1e3) + 1 : 1000000000;
        ready = poll(polled, waiting, milliseconds);
        if (ready < 0 && errno == EINTR)
            return -1;
        for (place = 0; place < waiting; place++)
            if (ready < 0 || polled[place].revents)
                proceed(&all[places[place]], 1);
    }
}

/* Send each server its command, and wait for the replies, without the interpreter lock.

   The arguments are: the sockets' methods `fileno`, the commands, a list for the replies, the
   seconds that they may take, how many replies may be enough, and how many seconds the others are
   waited for then. What `ask` would return is put into the list, at once for all. A server that has
   not replied keeps what stands there. After an error there is b"": the next read tells of it. The
   same stands for a command that was not sent whole: no other one may follow it. */
static PyObject *
exchange_all(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t nargs)
{
    Asked *all;
    PyObject *reply, *result = NULL;
    Py_ssize_t count;
    double began = now(), deadline, linger;
    long least;
    int place, heard;

    if (nargs != 6 || !PyTuple_Check(args[0]) || !PyTuple_Check(args[1]) || !PyList_Check(args[2])
        || (count = PyTuple_Size(args[0])) > MOST || PyTuple_Size(args[1]) != count
        || PyList_Size(args[2]) != count) {
        PyErr_SetString(PyExc_TypeError, "(filenos, commands, replies, seconds, least, linger)");
        return NULL;
    }
    deadline = began + PyFloat_AsDouble(args[3]);
    least = PyLong_AsLong(args[4]);
    linger = PyFloat_AsDouble(args[5]);
    if (PyErr_Occurred())
        return NULL;
    all = PyMem_Malloc((count + 1) * sizeof(Asked));
    if (all == NULL)
        return PyErr_NoMemory();
    for (place = 0; place < count; place++) {
        all[place].sent = all[place].received = all[place].over = 0;
        if (PyBytes_AsStringAndSize(PyTuple_GetItem(args[1], place), (char **)&all[place].data,
                                    &all[place].size) < 0)
            goto end;
        all[place].fd = number_from(PyTuple_GetItem(args[0], place));
        if (PyErr_Occurred())
            goto end;
    }
    for (heard = -2; heard < 0;) {
        Py_BEGIN_ALLOW_THREADS
        for (place = 0; heard == -2 && place < count; place++)
            proceed(&all[place], 0);
        heard = hear_all(all, (int)count, began, &deadline, &least, linger);
        Py_END_ALLOW_THREADS
        if (heard < 0 && PyErr_CheckSignals() < 0)
            goto end;
    }
    for (place = 0; place < count; place++)
        if (all[place].over || all[place].sent < all[place].size) {
            reply = parsed(all[place].reply, all[place].received);
            if (reply == NULL || PyList_SetItem(args[2], place, reply) < 0)
                goto end;
        }
    result = none();
end:
    PyMem_Free(all);
    return result;
}

#ifdef CLOCK_BOOTTIME
static PyObject *
boottime(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(unused))
{
    struct timespec time;
    clock_gettime(CLOCK_BOOTTIME, &time);
    return PyFloat_FromDouble((double)time.tv_sec + (double)time.tv_nsec * 1e-9);
}
#endif

/* Return what the calling thread keeps under *key*. If it is nothing, *make* makes it. */
static PyObject *
of_thread(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t nargs)
{
    PyObject *kept, *value, *made;

    if (nargs != 2) {
        PyErr_SetString(PyExc_TypeError, "(key, make)");
        return NULL;
    }
    kept = PyThreadState_GetDict();
    if (kept == NULL)
        return PyErr_NoMemory();
    value = PyDict_GetItemWithError(kept, args[0]);
    if (value == NULL) {
        if (PyErr_Occurred() || (made = PyObject_CallNoArgs(args[1])) == NULL)
            return NULL;
        /* A signal handler may have asked meanwhile. */
        value = PyDict_GetItemWithError(kept, args[0]);
        if (value == NULL && !PyErr_Occurred() && PyDict_SetItem(kept, args[0], made) == 0)
            value = made;
        Py_XINCREF(value);
        Py_DECREF(made);
        return value;
    }
    Py_INCREF(value);
    return value;
}

/* The same, but if *modules* has *name*, return what *other* returns for *key* and *make*. */
static PyObject *
of_thread_unless(PyObject *self, PyObject *const *args, Py_ssize_t nargs)
{
    if (nargs != 5) {
        PyErr_SetString(PyExc_TypeError, "(key, make, modules, name, other)");
        return NULL;
    }
    if (PyDict_GetItemWithError(args[2], args[3]) != NULL)
        return PyObject_CallFunctionObjArgs(args[4], args[0], args[1], NULL);
    if (PyErr_Occurred())
        return NULL;
    return of_thread(self, args, 2);
}

static int
is_loaded(PyObject *modules, PyObject *name)
{
    return PyDict_Contains(modules, name) != 0;
}

/* Return whether a loop may run in this thread: `flow.py` then decides who calls. */
static int
may_run_a_loop(PyObject *modules, PyObject *events, PyObject *loops)
{
    PyObject *function, *loop;

    function = PyList_GetItem(loops, 0);
    if (function == NULL || function == Py_None)
        return function == NULL || is_loaded(modules, events);
    if ((loop = PyObject_CallNoArgs(function)) == NULL)
        return 1;
    Py_DECREF(loop);
    return loop != Py_None;
}

enum { KEY, MODULES, GREENLET, TRIO, EVENTS, LOOPS, GET, SET, SLOW, COUNT };

/* Begin a scope of the owner that has *cell*; return whether that succeeded. */
static int
begin_scope(PyObject *cell, PyObject *const *args)
{
    PyObject *token = NULL, *scope = PyList_New(1);

    if (scope == NULL)
        return 0;
    (void)PyList_SetItem(scope, 0, none());
    token = PyCFunction_GetFlags(args[SET]) == METH_O /* `CallFunctionObjArgs` takes longer */
        ? PyCFunction_GetFunction(args[SET])(PyCFunction_GetSelf(args[SET]), scope)
        : PyObject_CallFunctionObjArgs(args[SET], scope, NULL);
    if (token == NULL) {
        Py_DECREF(scope);
        return 0;
    }
    Py_DECREF(token);
    return PyList_SetItem(cell, 0, scope) == 0;
}

/* Return whether nothing is in *scope*. */
static int
holds_nothing(PyObject *scope)
{
    Py_ssize_t size = PyList_Size(scope);

    return size == 0 || (size == 1 && PyList_GetItem(scope, 0) == Py_None);
}

/* Return the owner that stands for the running flow, as `flow.py` describes.

It is found here if the thread has one owner, and neither a loop, nor greenlets, nor jobs of a pool.
*slow* finds it otherwise. */
static PyObject *
owner_of_flow(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t nargs)
{
    PyObject *kept, *owner, *cell, *scope, *present;
    int found = 0;

    if (nargs != COUNT) {
        PyErr_SetString(PyExc_TypeError, "(key, modules, 3 names, loops, get, set, slow)");
        return NULL;
    }
    if (is_loaded(args[MODULES], args[GREENLET]) || is_loaded(args[MODULES], args[TRIO])
            || may_run_a_loop(args[MODULES], args[EVENTS], args[LOOPS]))
        goto slow;
    if ((kept = PyThreadState_GetDict()) == NULL)
        return PyErr_NoMemory();
    kept = PyDict_GetItemWithError(kept, args[KEY]);
    if (kept == NULL || !PyList_CheckExact(kept) || PyList_Size(kept) != 2)
        goto slow;
    cell = PyList_GetItem(kept, 0);
    owner = PyList_GetItem(kept, 1);
    scope = PyList_GetItem(cell, 0);
    Py_INCREF(owner);
    present = PyObject_CallNoArgs(args[GET]);
    if (present != NULL) {
        if (present == scope)
            found = !holds_nothing(scope) || begin_scope(cell, args);
        else if (PyList_Size(scope) == 0
                 && (present == Py_None || (PyList_CheckExact(present) && holds_nothing(present))))
            found = begin_scope(cell, args);
        Py_DECREF(present);
    }
    if (found)
        return owner;
    Py_DECREF(owner);
slow:
    return PyErr_Occurred() ? NULL : PyObject_CallNoArgs(args[SLOW]);
}

/* Return the code of a frame, and the byte of it that runs: (frame, "f_lasti"). By attributes this
   would take a hundredth of an acquire and a release longer. */
static PyObject *
line(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t nargs)
{
    PyObject *code, *instruction, *both;

    if (nargs != 2) {
        PyErr_SetString(PyExc_TypeError, "(frame, \"f_lasti\")");
        return NULL;
    }
    if ((instruction = PyObject_GetAttr(args[0], args[1])) == NULL)
        return NULL; /* it is no frame */
    code = (PyObject *)PyFrame_GetCode((PyFrameObject *)args[0]);
    both = PyTuple_Pack(2, code, instruction);
    Py_DECREF(code);
    Py_DECREF(instruction);
    return both;
}

#define MAX_UNDO 10 /* as in whole.py */

typedef struct {
    PyObject_HEAD
    PyObject *call, *undo;
    PyObject *method; /* Python's own type of bound methods: it calls what it binds from C */
} Whole;

static PyObject *
whole_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *call, *undo, *types, *method;
    Whole *self;

    if (kwargs != NULL && PyDict_Size(kwargs) > 0) {
        PyErr_SetString(PyExc_TypeError, "(call, undo)");
        return NULL;
    }
    if (!PyArg_ParseTuple(args, "OO", &call, &undo))
        return NULL;
    types = PyImport_ImportModule("types");
    method = types == NULL ? NULL : PyObject_GetAttrString(types, "MethodType");
    self = method == NULL ? NULL : (Whole *)PyType_GenericAlloc(type, 0);
    Py_XDECREF(types);
    if (self == NULL) {
        Py_XDECREF(method);
        return NULL;
    }
    Py_INCREF(call);
    Py_INCREF(undo);
    self->call = call;
    self->undo = undo;
    self->method = method;
    return (PyObject *)self;
}

static int
whole_traverse(Whole *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE((PyObject *)self));
    Py_VISIT(self->call);
    Py_VISIT(self->undo);
    Py_VISIT(self->method);
    return 0;
}

static int
whole_clear(Whole *self)
{
    Py_CLEAR(self->call);
    Py_CLEAR(self->undo);
    Py_CLEAR(self->method);
    return 0;
}

static void
whole_dealloc(Whole *self)
{
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    PyObject_GC_UnTrack(self);
    (void)whole_clear(self);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static PyObject *
whole_repr(Whole *self)
{
    return PyObject_Repr(self->call);
}

static PyObject *
whole_get(Whole *self, PyObject *object, PyObject *Py_UNUSED(type))
{
    if (object == NULL || object == Py_None) {
        Py_INCREF((PyObject *)self);
        return (PyObject *)self;
    }
    return PyObject_CallFunctionObjArgs(self->method, self, object, NULL);
}

static PyObject *
whole_call(Whole *self, PyObject *args, PyObject *kwargs)
{
    PyObject *result, *undone, *kind, *value, *trace;
    int times;

    /* Whatever looked it up need not keep it: its class may lose it meanwhile. */
    Py_INCREF((PyObject *)self);
    result = PyObject_Call(self->call, args, kwargs);
    if (result == NULL) {
        PyErr_Fetch(&kind, &value, &trace);
        /* A second signal may strike while the first one is undone. */
        for (times = 0; times < MAX_UNDO; times++) {
            undone = PyObject_Call(self->undo, args, kwargs);
            if (undone != NULL) {
                Py_DECREF(undone);
                break;
            }
            PyErr_Clear();
        }
        PyErr_Restore(kind, value, trace);
    }
    Py_DECREF((PyObject *)self);
    return result;
}

static PyMemberDef whole_members[] = {
    {"__wrapped__", T_OBJECT, offsetof(Whole, call), READONLY, "What is called."},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot whole_slots[] = {
    {Py_tp_doc, "Calls a function, and if that raises another one with the same arguments."},
    {Py_tp_new, whole_new},
    {Py_tp_traverse, whole_traverse},
    {Py_tp_clear, whole_clear},
    {Py_tp_dealloc, whole_dealloc},
    {Py_tp_repr, whole_repr},
    {Py_tp_descr_get, whole_get},
    {Py_tp_call, whole_call},
    {Py_tp_members, whole_members},
    {0, NULL},
};

static PyType_Spec whole_spec = {
    .name = "interlock._links._exchange.Whole",
    .basicsize = sizeof(Whole),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = whole_slots,
};

/* The answers that tasks of one event loop wait for.

   An `Answer` is what asyncio calls a future. A task that waits for an `asyncio.Future` is woken by
   a callback of the loop of its own, which costs more than all that is done here for a reply. So
   all answers that came at once wake their tasks by one callback: `Answers` itself. The tasks go
   on in the same order, each in its own context, as the loop would let them.

   Only the thread of the loop calls this, and signal handlers in it. */

enum { PENDING, CAME, FAILED, CANCELLED };

typedef struct Answer Answer;

typedef struct {
    PyObject_HEAD
    PyObject *loop, *error;                     /* of the server's errors: the class */
    PyObject *copy_context, *cancelled, *early; /* what asyncio has: a function, two errors */
    PyObject *call_soon, *run;                  /* names of methods */
    PyTypeObject *kind;                         /* `Answer` */
    Answer *first, *last; /* the answers to come; *last* is of no use without *first* */
    Py_ssize_t count;
    PyObject *ready;        /* a list of those whose tasks are to be woken */
    Py_ssize_t came;        /* replies so far */
    char scheduled, served; /* whether the loop calls this soon; whether any reply was no error */
} Answers;

struct Answer {
    PyObject_HEAD
    Answers *answers;
    Answer *next;    /* which comes after it */
    PyObject *value; /* the reply, the error, or the message of the cancellation */
    PyObject *then;  /* is told of the value before its task goes on, or NULL */
    PyObject *callback, *context; /* whom to wake, or NULL */
    PyObject *others;             /* more of the same: a list of pairs, or NULL */
    char state, blocking;
};

/* Have the loop call *self* soon. Return 0, or -1 with an exception set.

   After a Ctrl-C it is tried again, because no other answer may come. */
static int
schedule(Answers *self)
{
    PyObject *handle, *kind, *value, *trace;
    int struck;

    if (self->scheduled)
        return 0;
    handle = PyObject_CallMethodObjArgs(self->loop, self->call_soon, (PyObject *)self, NULL);
    struck = handle == NULL;
    if (struck) {
        PyErr_Fetch(&kind, &value, &trace);
        handle = PyObject_CallMethodObjArgs(self->loop, self->call_soon, (PyObject *)self, NULL);
        PyErr_Restore(kind, value, trace);
    }
    self->scheduled = handle != NULL;
    Py_XDECREF(handle);
    return struck ? -1 : 0;
}

/* Have the loop wake who waits for *self*. Return 0, or -1 with an exception set. */
static int
ring(Answer *self)
{
    if (self->callback == NULL)
        return 0;
    return PyList_Append(self->answers->ready, (PyObject *)self) < 0 ? -1
                                                                     : schedule(self->answers);
}

/* The same, even if the loop is to call `Answers` already. A Ctrl-C that strikes where the loop
   begins that call loses it. */
static int
ring_again(Answer *self)
{
    if (self->callback != NULL)
        self->answers->scheduled = 0;
    return ring(self);
}

/* End the wait for *self* in *state*, and take a new reference to *value*, which may be NULL. */
static int
conclude(Answer *self, char state, PyObject *value)
{
    Py_XINCREF(value);
    self->value = value;
    self->state = state;
    Py_CLEAR(self->then);
    return state == CAME ? ring(self) : ring_again(self);
}

static int
answer_traverse(Answer *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE((PyObject *)self));
    Py_VISIT((PyObject *)self->answers);
    Py_VISIT((PyObject *)self->next);
    Py_VISIT(self->value);
    Py_VISIT(self->then);
    Py_VISIT(self->callback);
    Py_VISIT(self->context);
    Py_VISIT(self->others);
    return 0;
}

static int
answer_clear(Answer *self)
{
    Py_CLEAR(self->value);
    Py_CLEAR(self->then);
    Py_CLEAR(self->callback);
    Py_CLEAR(self->context);
    Py_CLEAR(self->others);
    return 0;
}

static void
answer_dealloc(Answer *self)
{
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    PyObject_GC_UnTrack(self);
    (void)answer_clear(self);
    Py_CLEAR(self->answers); /* not before: methods need it */
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

/* Return the error of a cancellation; asyncio's `gather` asks for it by that name, too. */
static PyObject *
answer_cancelled_error(Answer *self, PyObject *Py_UNUSED(unused))
{
    PyObject *message = self->state == CANCELLED ? self->value : NULL;
    return PyObject_CallFunctionObjArgs(self->answers->cancelled, message, NULL);
}

static PyObject *
answer_result(Answer *self, PyObject *Py_UNUSED(unused))
{
    PyObject *error;

    if (self->state == CAME) {
        Py_INCREF(self->value);
        return self->value;
    }
    if (self->state == PENDING)
        PyErr_SetString(self->answers->early, "there is no answer yet");
    else if (self->state == FAILED)
        PyErr_SetObject((PyObject *)Py_TYPE(self->value), self->value);
    else {
        error = answer_cancelled_error(self, NULL);
        if (error != NULL)
            PyErr_SetObject(self->answers->cancelled, error);
        Py_XDECREF(error);
    }
    return NULL;
}

static PyObject *
answer_exception(Answer *self, PyObject *Py_UNUSED(unused))
{
    PyObject *error = self->state == FAILED ? self->value : Py_None;

    if (self->state == PENDING || self->state == CANCELLED)
        return answer_result(self, NULL);
    Py_INCREF(error);
    return error;
}

static PyObject *
answer_done(Answer *self, PyObject *Py_UNUSED(unused))
{
    return PyBool_FromLong(self->state != PENDING);
}

static PyObject *
answer_is_cancelled(Answer *self, PyObject *Py_UNUSED(unused))
{
    return PyBool_FromLong(self->state == CANCELLED);
}

static PyObject *
answer_cancel(Answer *self, PyObject *const *args, Py_ssize_t nargs, PyObject *names)
{
    Py_ssize_t given = nargs + (names == NULL ? 0 : PyTuple_Size(names));

    if (given > 1) {
        PyErr_SetString(PyExc_TypeError, "(msg=None)");
        return NULL;
    }
    if (self->state != PENDING)
        return ring_again(self) < 0 ? NULL : PyBool_FromLong(0);
    if (conclude(self, CANCELLED, given && args[0] != Py_None ? args[0] : NULL) < 0)
        return NULL;
    return PyBool_FromLong(1);
}

/* Tell `then` of *value*, and end the wait in *state*. Return 0, or -1 with an exception set. */
static int
answered(Answer *self, char state, PyObject *value)
{
    PyObject *then = self->then, *told;

    if (self->state == PENDING && then != NULL) {
        Py_INCREF(then);
        told = PyObject_CallFunctionObjArgs(then, value, NULL);
        Py_DECREF(then);
        if (told == NULL)
            return -1;
        Py_DECREF(told);
    }
    return self->state == PENDING ? conclude(self, state, value) : 0;
}

static PyObject *
answer_set_exception(Answer *self, PyObject *error)
{
    if (self->state != PENDING || !PyExceptionInstance_Check(error)) {
        PyErr_SetString(self->answers->early, "it has come already, or this is no error");
        return NULL;
    }
    if (answered(self, FAILED, error) < 0)
        return NULL;
    return none();
}

static PyObject *
answer_add_done_callback(Answer *self, PyObject *const *args, Py_ssize_t nargs, PyObject *names)
{
    PyObject *context, *pair;
    Py_ssize_t named = names == NULL ? 0 : PyTuple_Size(names);
    int failed = 0;

    if (nargs != 1 || named > 1) {
        PyErr_SetString(PyExc_TypeError, "(callback, *, context=None)");
        return NULL;
    }
    context = named && args[1] != Py_None ? args[1] : NULL;
    if (context == NULL)
        context = PyObject_CallNoArgs(self->answers->copy_context);
    else
        Py_INCREF(context);
    if (context == NULL)
        return NULL;
    if (self->callback == NULL) {
        Py_INCREF(args[0]);
        self->callback = args[0];
        self->context = context;
    }
    else {
        if (self->others == NULL)
            self->others = PyList_New(0);
        pair = self->others == NULL ? NULL : PyTuple_Pack(2, args[0], context);
        failed = pair == NULL || put(self->others, pair) < 0;
        Py_DECREF(context);
    }
    if (failed || (self->state != PENDING && ring(self) < 0))
        return NULL;
    return none();
}

/* Take the next one to wake out of *self*; return whether there is one. */
static int
next_callback(Answer *self, PyObject **callback, PyObject **context)
{
    PyObject *pair;

    *callback = self->callback;
    *context = self->context;
    self->callback = self->context = NULL;
    if (self->others != NULL && PyList_Size(self->others) > 0) {
        pair = PyList_GetItem(self->others, 0);
        self->callback = PyTuple_GetItem(pair, 0);
        self->context = PyTuple_GetItem(pair, 1);
        Py_INCREF(self->callback);
        Py_INCREF(self->context);
        (void)PyList_SetSlice(self->others, 0, 1, NULL);
    }
    return *callback != NULL;
}

static PyObject *
answer_remove_done_callback(Answer *self, PyObject *unwanted)
{
    PyObject *callback, *context, *kept = PyList_New(0), *pair;
    Py_ssize_t removed = 0;
    int same = 0;

    while (kept != NULL && same >= 0 && next_callback(self, &callback, &context)) {
        same = PyObject_RichCompareBool(callback, unwanted, Py_EQ);
        removed += same > 0;
        pair = same == 0 ? PyTuple_Pack(2, callback, context) : NULL;
        if (same == 0 && (pair == NULL || put(kept, pair) < 0))
            same = -1;
        Py_DECREF(callback);
        Py_DECREF(context);
    }
    if (kept == NULL || same < 0) {
        Py_XDECREF(kept);
        return NULL;
    }
    Py_XDECREF(self->others);
    self->others = kept;
    if (next_callback(self, &callback, &context)) { /* the former first one: none */
        Py_DECREF(callback);
        Py_DECREF(context);
    }
    return PyLong_FromSsize_t(removed);
}

static PyObject *
answer_await(Answer *self)
{
    Py_INCREF((PyObject *)self);
    return (PyObject *)self;
}

/* Step the wait of a task, which gets *self* until the answer has come. */
static PySendResult
answer_send(Answer *self, PyObject *Py_UNUSED(value), PyObject **result)
{
    if (self->state == PENDING) {
        self->blocking = 1;
        *result = answer_await(self);
        return PYGEN_NEXT;
    }
    *result = answer_result(self, NULL);
    return *result == NULL ? PYGEN_ERROR : PYGEN_RETURN;
}

/* Raise StopIteration for *result*, whose reference it takes; return NULL. */
static PyObject *
stopped(PyObject *result)
{
    PyObject *stop = PyObject_CallFunctionObjArgs(PyExc_StopIteration, result, NULL);

    Py_DECREF(result);
    if (stop != NULL)
        PyErr_SetObject(PyExc_StopIteration, stop);
    Py_XDECREF(stop);
    return NULL;
}

/* The same for a Python that is traced. */
static PyObject *
answer_next(Answer *self)
{
    PyObject *result;
    PySendResult kind = answer_send(self, NULL, &result);

    return kind == PYGEN_RETURN ? stopped(result) : result;
}

static PyObject *
answer_loop(Answer *self, void *Py_UNUSED(closure))
{
    Py_INCREF(self->answers->loop);
    return self->answers->loop;
}

static PyObject *
answer_message(Answer *self, void *Py_UNUSED(closure))
{
    PyObject *message = self->state == CANCELLED && self->value ? self->value : Py_None;
    Py_INCREF(message);
    return message;
}

static PyMethodDef answer_methods[] = {
    {"result", (PyCFunction)answer_result, METH_NOARGS, "Return the reply, or raise."},
    {"exception", (PyCFunction)answer_exception, METH_NOARGS, "Return the error, or None."},
    {"done", (PyCFunction)answer_done, METH_NOARGS, "Return whether nobody need wait."},
    {"_make_cancelled_error", (PyCFunction)answer_cancelled_error, METH_NOARGS,
     "Return the error that tells that it was given up."},
    {"cancelled", (PyCFunction)answer_is_cancelled, METH_NOARGS, "Return whether it was given up."},
    {"cancel", (PyCFunction)(void (*)(void))answer_cancel, METH_FASTCALL | METH_KEYWORDS,
     "Give it up; return whether it had not come."},
    {"set_exception", (PyCFunction)answer_set_exception, METH_O, "Raise an error in its place."},
    {"add_done_callback", (PyCFunction)(void (*)(void))answer_add_done_callback,
     METH_FASTCALL | METH_KEYWORDS, "Call a function soon after it has come."},
    {"remove_done_callback", (PyCFunction)answer_remove_done_callback, METH_O,
     "Do not call a function; return how often it was to be called."},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef answer_members[] = {
    {"_asyncio_future_blocking", T_BOOL, offsetof(Answer, blocking), 0, "Whether a task waits."},
    {NULL, 0, 0, 0, NULL},
};

static PyGetSetDef answer_getset[] = {
    {"_loop", (getter)answer_loop, NULL, "The event loop.", NULL},
    {"_cancel_message", (getter)answer_message, NULL, "Why it was given up.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot answer_slots[] = {
    {Py_tp_doc, "The answer to a command, which a task may await."},
    {Py_tp_traverse, answer_traverse},
    {Py_tp_clear, answer_clear},
    {Py_tp_dealloc, answer_dealloc},
    {Py_tp_iter, answer_await},
    {Py_tp_iternext, answer_next},
    {Py_am_await, answer_await},
    {Py_am_send, answer_send},
    {Py_tp_methods, answer_methods},
    {Py_tp_members, answer_members},
    {Py_tp_getset, answer_getset},
    {0, NULL},
};

static PyType_Spec answer_spec = {
    .name = "interlock._links._exchange.Answer",
    .basicsize = sizeof(Answer),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE
             | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = answer_slots,
};

/* Tell the loop of the error in a callback. Return -1 if it must go on: it ends the program. */
static int
complained(Answers *self)
{
    PyObject *kind, *value, *trace, *told;

    if (PyErr_ExceptionMatches(PyExc_KeyboardInterrupt)
        || PyErr_ExceptionMatches(PyExc_SystemExit))
        return -1;
    PyErr_Fetch(&kind, &value, &trace);
    PyErr_NormalizeException(&kind, &value, &trace);
    if (trace != NULL)
        (void)PyException_SetTraceback(value, trace);
    told = PyObject_CallMethod(self->loop, "call_exception_handler", "({s:s,s:O})", "message",
                               "Exception in callback of an answer", "exception", value);
    Py_XDECREF(kind);
    Py_XDECREF(value);
    Py_XDECREF(trace);
    Py_XDECREF(told);
    return told == NULL ? -1 : 0;
}

/* Wake all who wait for *each*. Return 0, or -1 with an exception set. */
static int
woken(Answers *self, Answer *each)
{
    PyObject *callback, *context, *done;

    while (next_callback(each, &callback, &context)) {
        done = PyObject_CallMethodObjArgs(context, self->run, callback, (PyObject *)each, NULL);
        Py_DECREF(callback);
        Py_DECREF(context);
        Py_XDECREF(done);
        if (done == NULL && complained(self) < 0)
            return -1;
    }
    return 0;
}

/* Wake all whose answers have come. If that is interrupted, the loop wakes the others soon. */
static PyObject *
answers_call(Answers *self, PyObject *Py_UNUSED(args), PyObject *Py_UNUSED(kwargs))
{
    PyObject *ready = self->ready, *fresh, *kind, *value, *trace;
    Py_ssize_t place, count = PyList_Size(ready), end;

    self->scheduled = 0;
    fresh = PyList_New(0);
    if (fresh == NULL)
        return NULL;
    self->ready = fresh;
    for (place = 0; place < count; place++) {
        if (woken(self, (Answer *)PyList_GetItem(ready, place)) < 0)
            break;
        /* Freed before the next task goes on: else each task seems to make more than it frees, and
           the garbage collector comes. */
        Py_INCREF(Py_None);
        (void)PyList_SetItem(ready, place, Py_None);
    }
    if (place < count) {
        PyErr_Fetch(&kind, &value, &trace);
        (void)PyList_SetSlice(ready, 0, place, NULL);
        end = PyList_Size(ready);
        (void)PyList_SetSlice(ready, end, end, self->ready);
        fresh = self->ready;
        self->ready = ready;
        Py_DECREF(fresh);
        self->scheduled = 0;
        (void)schedule(self);
        PyErr_Restore(kind, value, trace);
        return NULL;
    }
    Py_DECREF(ready);
    return none();
}

static PyObject *
answers_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *given[5];
    Answers *self;
    int place;

    if (kwargs != NULL && PyDict_Size(kwargs) > 0) {
        PyErr_SetString(PyExc_TypeError, "(loop, error, copy_context, cancelled, early)");
        return NULL;
    }
    if (!PyArg_ParseTuple(args, "OOOOO", &given[0], &given[1], &given[2], &given[3], &given[4]))
        return NULL;
    self = (Answers *)PyType_GenericAlloc(type, 0);
    if (self == NULL)
        return NULL;
    self->kind = (PyTypeObject *)PyObject_GetAttrString(PyType_GetModule(type), "Answer");
    self->loop = given[0];
    self->error = given[1];
    self->copy_context = given[2];
    self->cancelled = given[3];
    self->early = given[4];
    for (place = 0; place < 5; place++)
        Py_INCREF(given[place]);
    self->call_soon = PyUnicode_InternFromString("call_soon");
    self->run = PyUnicode_InternFromString("run");
    self->ready = PyList_New(0);
    if (self->kind == NULL || self->call_soon == NULL || self->run == NULL || self->ready == NULL)
        Py_CLEAR(self);
    return (PyObject *)self;
}

/* Take out the next answer to come, with its reference; NULL if nobody waits for one. */
static Answer *
next_answer(Answers *self)
{
    Answer *next = self->first;

    if (next != NULL) {
        self->first = next->next;
        next->next = NULL;
        self->count--;
    }
    return next;
}

static int
answers_traverse(Answers *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE((PyObject *)self));
    Py_VISIT((PyObject *)self->kind);
    Py_VISIT(self->loop);
    Py_VISIT(self->error);
    Py_VISIT(self->copy_context);
    Py_VISIT(self->cancelled);
    Py_VISIT(self->early);
    Py_VISIT(self->ready);
    Py_VISIT((PyObject *)self->first);
    return 0;
}

/* What methods need stays: answers that live longer are called all the same. */
static int
answers_clear(Answers *self)
{
    Answer *each;

    while ((each = next_answer(self)) != NULL)
        Py_DECREF((PyObject *)each);
    if (self->ready != NULL)
        (void)PyList_SetSlice(self->ready, 0, PyList_Size(self->ready), NULL);
    return 0;
}

static void
answers_dealloc(Answers *self)
{
    PyTypeObject *type = Py_TYPE((PyObject *)self);

    PyObject_GC_UnTrack(self);
    (void)answers_clear(self);
    Py_CLEAR(self->kind);
    Py_CLEAR(self->loop);
    Py_CLEAR(self->error);
    Py_CLEAR(self->copy_context);
    Py_CLEAR(self->cancelled);
    Py_CLEAR(self->early);
    Py_CLEAR(self->call_soon);
    Py_CLEAR(self->run);
    Py_CLEAR(self->ready);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

/* Return the answer to a command that is sent next. */
static PyObject *
answers_expect(Answers *self, PyObject *then)
{
    /* First: this may collect garbage, and so run other code. */
    Answer *each = (Answer *)PyType_GenericAlloc(self->kind, 0);

    if (each == NULL)
        return NULL;
    Py_INCREF((PyObject *)self);
    each->answers = self;
    if (then != Py_None) {
        Py_INCREF(then);
        each->then = then;
    }
    if (self->first == NULL)
        self->first = each;
    else
        self->last->next = each;
    self->last = each;
    self->count++;
    Py_INCREF((PyObject *)each);
    return (PyObject *)each;
}

/* Give each whole reply to the one whose turn it is. Return what `parse_all` does, without them.

   After a Ctrl-C the one that it struck is still to come: `forget` returns it, too. */
static PyObject *
answers_take(Answers *self, PyObject *data)
{
    const char *at, *end, *next, *from;
    Py_ssize_t size, missing = 0;
    PyObject *reply;
    Answer *each;
    char *begin;
    int failed;

    if (PyBytes_AsStringAndSize(data, &begin, &size) < 0)
        return NULL;
    self->scheduled = 0; /* as in `ring_again` */
    for (at = begin, end = begin + size; at < end; at = next) {
        next = reply_end(at, end, 0, &missing);
        if (next == NULL)
            return Py_BuildValue("([]nn)", (Py_ssize_t)(at - begin), missing);
        from = at;
        reply = value_at(&from, end, self->error);
        if (reply == NULL)
            return NULL;
        each = next_answer(self);
        if (each == NULL) {
            Py_DECREF(reply);
            PyErr_SetString(PyExc_IndexError, "nobody waits for a reply");
            return NULL;
        }
        self->came++;
        self->served = self->served || *at != '-';
        failed = answered(each, CAME, reply);
        if (failed && each->state == PENDING) {
            each->next = self->first;
            self->first = each;
            if (each->next == NULL)
                self->last = each;
            self->count++;
        }
        else
            Py_DECREF((PyObject *)each);
        Py_DECREF(reply);
        if (failed)
            return NULL;
    }
    return PyList_New(0);
}

/* Return a list of all that have not come, and wait for none of them any more. */
static PyObject *
answers_forget(Answers *self, PyObject *Py_UNUSED(unused))
{
    PyObject *list = PyList_New(0);
    Answer *each;

    while (list != NULL && (each = next_answer(self)) != NULL)
        if (put(list, (PyObject *)each) < 0)
            Py_CLEAR(list);
    return list;
}

static Py_ssize_t
answers_length(Answers *self)
{
    return self->count;
}

static PyMethodDef answers_methods[] = {
    {"expect", (PyCFunction)answers_expect, METH_O, "Return the answer to the next command."},
    {"take", (PyCFunction)answers_take, METH_O,
     "Give whole replies to those who wait; return where others begin, and what they lack."},
    {"forget", (PyCFunction)answers_forget, METH_NOARGS, "Return all that have not come."},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef answers_members[] = {
    {"came", T_PYSSIZET, offsetof(Answers, came), READONLY, "How many replies have come."},
    {"served", T_BOOL, offsetof(Answers, served), READONLY, "Whether any was no error."},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot answers_slots[] = {
    {Py_tp_doc, "The answers that tasks wait for, in the order of their commands."},
    {Py_tp_new, answers_new},
    {Py_tp_traverse, answers_traverse},
    {Py_tp_clear, answers_clear},
    {Py_tp_dealloc, answers_dealloc},
    {Py_tp_call, answers_call},
    {Py_sq_length, answers_length},
    {Py_tp_methods, answers_methods},
    {Py_tp_members, answers_members},
    {0, NULL},
};

static PyType_Spec answers_spec = {
    .name = "interlock._links._exchange.Answers",
    .basicsize = sizeof(Answers),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = answers_slots,
};

/* A coroutine that is not awaited yet. `asyncio/hold.py` gives this type all methods that nobody
   calls who awaits it. To await it runs no code in Python and makes no object more, as a class in
   Python would. */

typedef struct {
    PyObject_HEAD
    PyObject *coroutine, *references; /* what is stepped; the weak references to this */
} Unawaited;

static PyObject *
unawaited_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *coroutine;
    Unawaited *self;

    if (kwargs != NULL || PyTuple_Size(args) != 1) {
        PyErr_SetString(PyExc_TypeError, "(coroutine)");
        return NULL;
    }
    coroutine = PyTuple_GetItem(args, 0);
    self = (Unawaited *)PyType_GenericAlloc(type, 0);
    if (self != NULL) {
        Py_INCREF(coroutine);
        self->coroutine = coroutine;
    }
    return (PyObject *)self;
}

static int
unawaited_traverse(Unawaited *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE((PyObject *)self));
    Py_VISIT(self->coroutine);
    return 0;
}

static int
unawaited_clear(Unawaited *self)
{
    Py_CLEAR(self->coroutine);
    return 0;
}

static void
unawaited_dealloc(Unawaited *self)
{
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    PyObject_GC_UnTrack(self);
    if (self->references != NULL)
        PyObject_ClearWeakRefs((PyObject *)self);
    (void)unawaited_clear(self);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static PyObject *
unawaited_await(Unawaited *self)
{
    Py_INCREF((PyObject *)self);
    return (PyObject *)self;
}

static PySendResult
unawaited_send(Unawaited *self, PyObject *value, PyObject **result)
{
    return PyIter_Send(self->coroutine, value, result);
}

static PyObject *
unawaited_next(Unawaited *self)
{
    PyObject *result;
    PySendResult kind = PyIter_Send(self->coroutine, Py_None, &result);
    return kind == PYGEN_RETURN ? stopped(result) : result;
}

static PyMemberDef unawaited_members[] = {
    {"_coroutine", T_OBJECT, offsetof(Unawaited, coroutine), READONLY, "What is stepped."},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(Unawaited, references), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot unawaited_slots[] = {
    {Py_tp_new, unawaited_new},
    {Py_tp_traverse, unawaited_traverse},
    {Py_tp_clear, unawaited_clear},
    {Py_tp_dealloc, unawaited_dealloc},
    {Py_tp_iternext, unawaited_next},
    {Py_am_await, unawaited_await},
    {Py_am_send, unawaited_send},
    {Py_tp_members, unawaited_members},
    {0, NULL},
};

static PyType_Spec unawaited_spec = {
    .name = "interlock._links._exchange.Unawaited",
    .basicsize = sizeof(Unawaited),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE,
    .slots = unawaited_slots,
};

static int
add_types(PyObject *added)
{
    PyType_Spec *specs[] = {&whole_spec, &answer_spec, &answers_spec, &unawaited_spec};
    PyObject *type;
    size_t place;
    int failed = 0;

    for (place = 0; !failed && place < sizeof specs / sizeof *specs; place++) {
        type = PyType_FromModuleAndSpec(added, specs[place], NULL);
        failed = type == NULL || PyModule_AddType(added, (PyTypeObject *)type) < 0;
        Py_XDECREF(type);
    }
    return failed ? -1 : 0;
}

static PyMethodDef methods[] = {
    {"of_thread", (PyCFunction)(void (*)(void))of_thread, METH_FASTCALL,
     "Return what this thread keeps under a key, or else what a function makes."},
    {"of_thread_unless", (PyCFunction)(void (*)(void))of_thread_unless, METH_FASTCALL,
     "The same, unless a module is loaded: then another function returns it."},
    {"owner_of_flow", (PyCFunction)(void (*)(void))owner_of_flow, METH_FASTCALL,
     "Return the owner that stands for what runs in this thread."},
    {"line", (PyCFunction)(void (*)(void))line, METH_FASTCALL,
     "Return the code of a frame, and the byte of it that runs."},
    {"ask", (PyCFunction)(void (*)(void))ask, METH_FASTCALL,
     "Send bytes; return the reply if it is nil or numbers, else what comes first of it."},
    {"packed", packed, METH_O, "Return a command of texts and numbers as bytes, or None."},
#ifdef CLOCK_BOOTTIME
    {"boottime", boottime, METH_NOARGS, "Return the seconds since the machine started."},
#endif
    {"exchange_all", (PyCFunction)(void (*)(void))exchange_all, METH_FASTCALL,
     "Send a command to each of several sockets, and receive the replies."},
    {"exchange", (PyCFunction)(void (*)(void))exchange, METH_FASTCALL,
     "Send bytes; return what comes first of the reply."},
    {"parse_all", (PyCFunction)(void (*)(void))parse_all, METH_FASTCALL,
     "Return all whole replies, and if something follows them also where they end and what lacks."},
    {"send_all", (PyCFunction)(void (*)(void))send_all, METH_FASTCALL, "Send bytes."},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, add_types},
/* The stable ABI of 3.11, for which wheels are built, knows none of these. */
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
    .m_name = "interlock._links._exchange",
    .m_doc = SOURCE,
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC
PyInit__exchange(void)
{
    return PyModuleDef_Init(&module);
}
