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
* The errors are those of `exchange_in_python` in exchange.py.
  Signals are handled as PEP 475 says.
* `ask` reads the replies that locks get nearly always: nil and numbers, if whole and alone.
  Of all others it returns the bytes, for the parser.
* `packed` makes the bytes that hiredis makes. It leaves all but texts and small numbers to it.
*/

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <time.h>

#define CHUNK 16384 /* a lock's replies have 40 bytes at the most */
#define DIGITS 18   /* of a number that is read here: it fits into 64 bits */
#define FEW 8       /* numbers in a list that is read here */

static int
descriptor_of(PyObject *sock)
{
    int fd = PyObject_AsFileDescriptor(sock);
    if (fd < 0 && PyErr_ExceptionMatches(PyExc_ValueError)) {
        PyErr_Clear(); /* it is closed, which a socket's methods tell so: */
        errno = EBADF;
        PyErr_SetFromErrno(PyExc_OSError);
    }
    return fd;
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

static int
arguments(PyObject *const *args, Py_ssize_t nargs, int *fd, char **data, Py_ssize_t *size,
          double *seconds)
{
    if (nargs != 3) {
        PyErr_SetString(PyExc_TypeError, "(socket, bytes, seconds)");
        return -1;
    }
    *seconds = PyFloat_AsDouble(args[2]);
    if (*seconds == -1.0 && PyErr_Occurred())
        return -1;
    return PyBytes_AsStringAndSize(args[1], data, size) < 0 || (*fd = descriptor_of(args[0])) < 0
               ? -1
               : 0;
}

static PyObject *
exchange(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t nargs)
{
    char reply[CHUNK], *data;
    Py_ssize_t size;
    ssize_t received;
    double seconds;
    int fd;

    if (arguments(args, nargs, &fd, &data, &size, &seconds) < 0)
        return NULL;
    received = transfer(fd, data, size, reply, seconds);
    return received < 0 ? NULL : PyBytes_FromStringAndSize(reply, received);
}

/* Read a number and the end of its line; return where that ends, NULL if there is none. */
static const char *
digits(const char *at, const char *end, long long *number)
{
    int negative = at < end && *at == '-';
    const char *first = at += negative;

    *number = 0;
    while (at < end && *at >= '0' && *at <= '9' && at - first < DIGITS)
        *number = *number * 10 + (*at++ - '0');
    if (at == first || end - at < 2 || at[0] != '\r' || at[1] != '\n')
        return NULL;
    if (negative)
        *number = -*number;
    return at + 2;
}

/* Return the reply if it is nil, a number or a few numbers, else its bytes. */
static PyObject *
parsed(const char *reply, Py_ssize_t size)
{
    const char *at, *end = reply + size;
    long long number, numbers[FEW];
    Py_ssize_t count = 0, place;
    PyObject *list, *item;

    if (size == 5 && memcmp(reply, "$-1\r\n", 5) == 0) {
        Py_INCREF(Py_None); /* as in `send_all` */
        return Py_None;
    }
    if (size > 3 && reply[0] == ':' && digits(reply + 1, end, &number) == end)
        return PyLong_FromLongLong(number);
    if (size > 3 && reply[0] == '*' && reply[1] >= '1' && reply[1] <= '0' + FEW
        && reply[2] == '\r') {
        at = reply + 4;
        while (at != NULL && at < end && reply[3] == '\n' && *at == ':' && count < FEW)
            at = digits(at + 1, end, &numbers[count++]);
        if (at == end && count == reply[1] - '0') {
            list = PyList_New(count);
            for (place = 0; list != NULL && place < count; place++) {
                item = PyLong_FromLongLong(numbers[place]);
                if (item == NULL || PyList_SetItem(list, place, item) < 0)
                    Py_CLEAR(list);
            }
            return list;
        }
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
            Py_INCREF(Py_None); /* as in `send_all` */
            return Py_None;
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

/* As `exchange`, for a socket's method `fileno`. Looking it up costs more than all else here. */
static PyObject *
ask(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t nargs)
{
    char reply[CHUNK], *data;
    Py_ssize_t size;
    ssize_t received;
    double seconds;
    PyObject *number, *given[3];
    int fd, good;

    if (nargs != 3) {
        PyErr_SetString(PyExc_TypeError, "(fileno, bytes, seconds)");
        return NULL;
    }
    number = PyObject_CallNoArgs(args[0]);
    if (number == NULL)
        return NULL;
    given[0] = number;
    given[1] = args[1];
    given[2] = args[2];
    good = arguments(given, 3, &fd, &data, &size, &seconds);
    Py_DECREF(number);
    if (good < 0)
        return NULL;
    received = transfer(fd, data, size, reply, seconds);
    return received < 0 ? NULL : parsed(reply, received);
}

static PyObject *
send_all(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t nargs)
{
    char *data;
    Py_ssize_t size;
    double seconds;
    int fd;

    if (arguments(args, nargs, &fd, &data, &size, &seconds) < 0
        || transfer(fd, data, size, NULL, seconds) < 0)
        return NULL;
    /* Not Py_RETURN_NONE: with the headers of 3.12 it adds no reference. Python 3.11 may load the
       same file, and would lose one each time. */
    Py_INCREF(Py_None);
    return Py_None;
}

/* Wait for the socket or the bell, and empty the bell. No other thread does that meanwhile.

   Return what was received from the socket, 0 for nothing, or -1 and set errno. */
static ssize_t
heard(int fd, int bell, char *messages, double seconds)
{
    struct pollfd polled[2] = {{fd, POLLIN, 0}, {bell, POLLIN, 0}};
    int milliseconds = seconds <= 0 ? 0 : seconds < 1e6 ? (int)(seconds * 1e3) + 1 : 1000000000;
    char rung[64];
    ssize_t received = 0;

    if (poll(polled, 2, milliseconds) < 0)
        return errno == EINTR ? 0 : -1; /* the caller's loop handles signals */
    if (polled[1].revents)
        (void)!recv(bell, rung, sizeof rung, MSG_DONTWAIT);
    if (polled[0].revents) {
        received = recv(fd, messages, CHUNK, MSG_DONTWAIT);
        if (received < 0 && (errno == EAGAIN || errno == EINTR))
            return 0;
        if (received == 0) {
            errno = ECONNRESET; /* the server closed the connection */
            return -1;
        }
    }
    return received;
}

/* Return whether a method of an object returns something true, or -1 with an exception set. */
static int
tells(PyObject *object, const char *method)
{
    PyObject *answer = PyObject_CallMethod(object, method, NULL);
    int truth = answer == NULL ? -1 : PyObject_IsTrue(answer);

    Py_XDECREF(answer);
    return truth;
}

/* Parse what was received, and append each whole message. Return how many, or -1. */
static Py_ssize_t
appended(PyObject *reader, const char *received, ssize_t size, PyObject *messages)
{
    PyObject *message, *done;
    Py_ssize_t count;

    done = PyObject_CallMethod(reader, "feed", "y#", received, (Py_ssize_t)size);
    for (count = 0; done != NULL; count++) {
        Py_DECREF(done);
        message = PyObject_CallMethod(reader, "gets", NULL);
        if (message == NULL)
            return -1;
        if (message == Py_False) {
            Py_DECREF(message);
            return count;
        }
        done = PyObject_CallMethod(messages, "append", "(O)", message);
        Py_DECREF(message);
    }
    return -1;
}

/* Append the present exception in place of a message. Return 0, or -1 with an exception set. */
static int
appended_error(PyObject *messages)
{
    PyObject *kind, *value, *trace, *done;

    PyErr_Fetch(&kind, &value, &trace);
    PyErr_NormalizeException(&kind, &value, &trace);
    done = PyObject_CallMethod(messages, "append", "(O)", value);
    Py_XDECREF(kind);
    Py_XDECREF(value);
    Py_XDECREF(trace);
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

/* Receive once, for the holder of the token.

   Return the size received: negative if it has whole messages, or an error in their place. */
static PyObject *
received_once(PyObject *const *args, double seconds, int collects)
{
    char received[CHUNK];
    Py_ssize_t count;
    ssize_t size;
    int fd, bell = -1, problem = 0, waits = args[1] == Py_None ? 1 : tells(args[1], "locked");

    if (waits < 0)
        return NULL;
    /* It was rung, or somebody has left messages, before this thread had the token. */
    if (!waits || PyObject_Size(args[5]) != 0)
        return PyErr_Occurred() ? NULL : PyLong_FromLong(0);
    fd = descriptor_of(args[2]);
    if (fd >= 0 && args[3] != Py_None)
        bell = descriptor_of(args[3]);
    if (fd < 0 || PyErr_Occurred()) {
        if (!PyErr_ExceptionMatches(PyExc_OSError))
            return NULL;
        size = -1;
    }
    else {
        if (collects)
            PyGC_Enable();
        Py_BEGIN_ALLOW_THREADS
        size = heard(fd, bell, received, seconds);
        problem = errno;
        Py_END_ALLOW_THREADS
        (void)PyGC_Disable();
        if (size < 0) {
            errno = problem;
            PyErr_SetFromErrno(PyExc_OSError);
        }
    }
    if (size == 0)
        return PyLong_FromLong(0);
    count = size < 0 ? -1 : appended(args[4], received, size, args[5]);
    if (count < 0 && appended_error(args[5]) < 0)
        return NULL;
    return PyLong_FromSsize_t(count ? -1 : size);
}

/* Receive messages, if no other thread does. None means that another thread does.

   While this thread has the token, it runs no code in Python: no signal handler, and no finalizer,
   because no garbage is collected. */
static PyObject *
receive(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t nargs)
{
    PyObject *taken, *result, *kind, *value, *trace;
    double seconds;
    int free, collects;

    if (nargs != 7) {
        PyErr_SetString(PyExc_TypeError,
                        "(token, wakeup, socket, bell, reader, messages, seconds)");
        return NULL;
    }
    seconds = PyFloat_AsDouble(args[6]);
    if (seconds == -1.0 && PyErr_Occurred())
        return NULL;
    collects = PyGC_Disable();
    taken = PyObject_CallMethod(args[0], "acquire", "(O)", Py_False);
    free = taken == NULL ? -1 : PyObject_IsTrue(taken);
    Py_XDECREF(taken);
    if (free == 1) {
        result = received_once(args, seconds, collects);
        PyErr_Fetch(&kind, &value, &trace);
        Py_XDECREF(PyObject_CallMethod(args[0], "release", NULL));
        PyErr_Restore(kind, value, trace);
    }
    else {
        result = free < 0 ? NULL : Py_None;
        Py_XINCREF(result); /* as in `send_all` */
    }
    if (collects)
        PyGC_Enable();
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

static PyMethodDef methods[] = {
    {"of_thread", (PyCFunction)(void (*)(void))of_thread, METH_FASTCALL,
     "Return what this thread keeps under a key, or else what a function makes."},
    {"ask", (PyCFunction)(void (*)(void))ask, METH_FASTCALL,
     "Send bytes; return the reply if it is nil or numbers, else what comes first of it."},
    {"packed", packed, METH_O, "Return a command of texts and numbers as bytes, or None."},
#ifdef CLOCK_BOOTTIME
    {"boottime", boottime, METH_NOARGS, "Return the seconds since the machine started."},
#endif
    {"exchange", (PyCFunction)(void (*)(void))exchange, METH_FASTCALL,
     "Send bytes; return what comes first of the reply."},
    {"receive", (PyCFunction)(void (*)(void))receive, METH_FASTCALL,
     "Receive messages, if no other thread does."},
    {"send_all", (PyCFunction)(void (*)(void))send_all, METH_FASTCALL, "Send bytes."},
    {NULL, NULL, 0, NULL},
};

/* The stable ABI of 3.11, for which wheels are built, knows none of these. */
static PyModuleDef_Slot slots[] = {
#if PY_VERSION_HEX >= 0x030C0000 && !defined(Py_LIMITED_API)
    {Py_mod_multiple_interpreters, Py_MOD_PER_INTERPRETER_GIL_SUPPORTED},
#endif
#if PY_VERSION_HEX >= 0x030D0000 && !defined(Py_LIMITED_API)
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
    {0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "interlock._links._exchange",
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC
PyInit__exchange(void)
{
    return PyModuleDef_Init(&module);
}
