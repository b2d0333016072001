/* Sending to a server and receiving from it, without the interpreter lock.

And what the hot path asks for most often: the clock, what the calling thread keeps, and who owns its
holds.

Theory. A socket's send and recv each give up the interpreter lock and take it back. With several
threads at work that is two waits for it in each round trip, of which only the second is of any use:
between the two there is nothing to interpret.

Rules:

* poll() waits, for what is left of the time: a signal does not prolong it.
* `parse_all` reads any replies of RESP2, and keeps nothing between two calls. So threads, signal
  handlers and finalizers may call it at any time.
* Threads share nothing here. References are borrowed only from arguments that cannot change: bytes,
  texts, numbers, tuples.
* The errors are those of `ask_in_python` in exchange.py. Signals are handled as PEP 475 says.
* `ask` reads the replies that locks get nearly always: nil, a number, or a list without an error.
  They must be whole and alone. Of all others it returns the bytes, for the parser, and of what comes
  without a question, which may be the middle of a reply.
* What `whole` returns calls one function, and another one if that fails. No signal handler runs in
  between: handlers run only while Python code runs.
*/

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
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

/* Return whether there are *count* arguments. If not, set an exception, which says what they are. */
static int
takes(Py_ssize_t nargs, int count, const char *what)
{
    if (nargs != count)
        PyErr_SetString(PyExc_TypeError, what);
    return nargs == count;
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

/* Send *data*, then receive into *reply*.

   Return the size received, or -1 with an exception set. */
static ssize_t
transfer(int fd, const char *data, Py_ssize_t size, char *reply, double seconds)
{
    double deadline = now() + seconds;
    ssize_t done;
    int problem;

    for (;;) {
        Py_BEGIN_ALLOW_THREADS
        for (done = 0; size > 0 && done >= 0; data += done, size -= done) {
            done = send(fd, data, size, MSG_DONTWAIT);
            if (done < 0 && errno == EAGAIN)
                done = wait_for(fd, POLLOUT, deadline);
            if (done < 0)
                break;
        }
        if (done >= 0 && (done = wait_for(fd, POLLIN, deadline)) == 0) {
            done = recv(fd, reply, CHUNK, MSG_DONTWAIT);
            if (done < 0 && errno == EAGAIN)
                errno = EINTR; /* poll() was wrong, as it may be: wait again */
        }
        problem = errno;
        Py_END_ALLOW_THREADS
        if (done >= 0)
            return done;
        if (problem != EINTR) {
            errno = problem;
            PyErr_SetFromErrno(PyExc_OSError);
            return -1;
        }
        if (PyErr_CheckSignals() < 0)
            return -1;
    }
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

/* Append *value* to a list, and give it away. Return 0, or -1 with an exception set or without. */
static int
put(PyObject *list, PyObject *value)
{
    int good = value == NULL ? -1 : PyList_Append(list, value);
    Py_XDECREF(value);
    return good;
}

/* Return the reply that begins at *at*, and move *at* to its end.

   NULL without an exception means that it is not whole, and *missing* says how many bytes are missing
   at least. It is negative if this is no reply, and 0 if it has an error and *error* is NULL. */
static PyObject *
reply_at(const char **at, const char *end, PyObject *error, int depth, Py_ssize_t *missing)
{
    const char *begin = *at, *line;
    PyObject *values, *text;
    long long count;

    *missing = begin < end ? -1 : 1;
    if (begin >= end || memchr("+-:$*", *begin, 5) == NULL || depth > DEEPEST)
        return NULL;
    line = line_end(begin, end);
    if (line == NULL) {
        if (*begin == '+' || *begin == '-' || end - begin <= HEAD)
            *missing = 1;
        return NULL;
    }
    *at = line;
    if (*begin == '+')
        return PyBytes_FromStringAndSize(begin + 1, line - begin - 3);
    if (*begin == '-') {
        *missing = 0;
        if (error == NULL)
            return NULL;
        text = PyUnicode_DecodeUTF8(begin + 1, line - begin - 3, "replace");
        if (text == NULL)
            return NULL;
        values = PyObject_CallFunctionObjArgs(error, text, NULL);
        Py_DECREF(text);
        return values;
    }
    if (digits(begin + 1, line, &count) != line
        || (*begin != ':' && (count < -1 || count > LONGEST)))
        return NULL;
    if (*begin == ':')
        return PyLong_FromLongLong(count);
    if (count < 0)
        return none();
    if (*begin == '$') {
        *at = line + count + 2;
        if (end - line < count + 2)
            *missing = (Py_ssize_t)(count + 2 - (end - line));
        else if (memcmp(line + count, "\r\n", 2) == 0)
            return PyBytes_FromStringAndSize(line, (Py_ssize_t)count);
        return NULL;
    }
    /* It grows with what is there: a server may announce more than it sends. */
    values = PyList_New(0);
    for (; values != NULL && count > 0; count--) {
        if (put(values, reply_at(at, end, error, depth + 1, missing)) < 0) {
            if (*missing > 0)
                *missing += (Py_ssize_t)(count - 1) * SHORTEST;
            Py_CLEAR(values);
        }
    }
    return values;
}

/* Return a list of all whole replies, if nothing else follows them. Otherwise return the list,
   where they end, and how many bytes the next reply lacks at least: -1 if it is no reply. */
static PyObject *
parse_all(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t nargs)
{
    Py_ssize_t size, missing = 0;
    const char *at, *from, *end;
    PyObject *values;
    char *begin;

    if (!takes(nargs, 2, "(bytes, error)"))
        return NULL;
    if (PyBytes_AsStringAndSize(args[0], &begin, &size) < 0 || (values = PyList_New(0)) == NULL)
        return NULL;
    for (from = at = begin, end = begin + size; at < end; from = at) {
        if (put(values, reply_at(&at, end, args[1], 0, &missing)) == 0)
            continue;
        if (!PyErr_Occurred())
            return Py_BuildValue("(Nnn)", values, (Py_ssize_t)(from - begin), missing);
        Py_DECREF(values);
        return NULL;
    }
    return values;
}

/* Return the reply if it is nil, a number or a list without an error, else its bytes. */
static PyObject *
parsed(const char *reply, Py_ssize_t size)
{
    const char *at = reply, *end = reply + size;
    Py_ssize_t missing;
    PyObject *value = reply_at(&at, end, NULL, 0, &missing);

    if (PyErr_Occurred() || (value != NULL && at == end && !PyBytes_Check(value)))
        return value;
    Py_XDECREF(value);
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

/* Send and receive: a socket's method `fileno`, bytes and seconds. Looking that method up would cost
   more than all else here. */
static PyObject *
ask(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t nargs)
{
    char *data, reply[CHUNK];
    PyObject *number;
    Py_ssize_t size;
    ssize_t received;
    double seconds;
    int fd;

    if (!takes(nargs, 3, "(fileno, bytes, seconds)"))
        return NULL;
    seconds = PyFloat_AsDouble(args[2]);
    if ((seconds == -1.0 && PyErr_Occurred())
        || PyBytes_AsStringAndSize(args[1], &data, &size) < 0)
        return NULL;
    number = PyObject_CallNoArgs(args[0]);
    fd = number == NULL ? -1 : (int)PyLong_AsLong(number);
    Py_XDECREF(number);
    if (fd < 0 && !PyErr_Occurred()) {
        errno = EBADF; /* it is closed */
        PyErr_SetFromErrno(PyExc_OSError);
    }
    if (fd < 0 || (received = transfer(fd, data, size, reply, seconds)) < 0)
        return NULL;
    return size > 0 ? parsed(reply, received) : PyBytes_FromStringAndSize(reply, received);
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

    if (!takes(nargs, 2, "(key, make)"))
        return NULL;
    kept = PyThreadState_GetDict();
    if (kept == NULL)
        return PyErr_NoMemory();
    value = PyDict_GetItemWithError(kept, args[0]);
    if (value == NULL && !PyErr_Occurred() && (made = PyObject_CallNoArgs(args[1])) != NULL) {
        /* A signal handler may have asked meanwhile. */
        value = PyDict_GetItemWithError(kept, args[0]);
        if (value == NULL && !PyErr_Occurred() && PyDict_SetItem(kept, args[0], made) == 0)
            value = made; /* it is kept, so this reference to it may go */
        Py_XINCREF(value);
        Py_DECREF(made);
        return value;
    }
    Py_XINCREF(value);
    return value;
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

    if (!takes(nargs, COUNT, "(key, modules, 3 names, loops, get, set, slow)"))
        return NULL;
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

#define MAX_UNDO 10 /* as in whole.py */

/* Call the first of *both*, and if that raises the second one with the same arguments. */
static PyObject *
call_whole(PyObject *both, PyObject *args, PyObject *named)
{
    PyObject *result, *undone, *kind, *value, *trace;
    int times;

    /* Whatever looked it up need not keep it: its class may lose it meanwhile. */
    Py_INCREF(both);
    result = PyObject_Call(PyTuple_GetItem(both, 0), args, named);
    if (result == NULL) {
        PyErr_Fetch(&kind, &value, &trace);
        /* A second signal may strike while the first one is undone. */
        for (times = 0; times < MAX_UNDO; times++) {
            undone = PyObject_Call(PyTuple_GetItem(both, 1), args, named);
            if (undone != NULL) {
                Py_DECREF(undone);
                break;
            }
            PyErr_Clear();
        }
        PyErr_Restore(kind, value, trace);
    }
    Py_DECREF(both);
    return result;
}

static PyMethodDef whole_method = {
    "whole", (PyCFunction)(void (*)(void))call_whole, METH_VARARGS | METH_KEYWORDS,
    "Call a function, and if that raises another one with the same arguments."};

static PyObject *
whole(PyObject *Py_UNUSED(module), PyObject *both)
{
    if (!takes(PyTuple_Size(both), 2, "(call, undo)"))
        return NULL;
    return PyCFunction_New(&whole_method, both);
}

static PyMethodDef methods[] = {
    {"of_thread", (PyCFunction)(void (*)(void))of_thread, METH_FASTCALL,
     "Return what this thread keeps under a key, or else what a function makes."},
    {"whole", whole, METH_VARARGS, "Return a function that undoes what it calls if that raises."},
    {"owner_of_flow", (PyCFunction)(void (*)(void))owner_of_flow, METH_FASTCALL,
     "Return the owner that stands for what runs in this thread."},
    {"ask", (PyCFunction)(void (*)(void))ask, METH_FASTCALL,
     "Send bytes; return the reply if it is nil or numbers, else what comes first of it."},
    {"packed", packed, METH_O, "Return a command of texts and numbers as bytes, or None."},
#ifdef CLOCK_BOOTTIME
    {"boottime", boottime, METH_NOARGS, "Return the seconds since the machine started."},
#endif
    {"parse_all", (PyCFunction)(void (*)(void))parse_all, METH_FASTCALL,
     "Return all whole replies, and if something follows them also where they end and what lacks."},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {
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
