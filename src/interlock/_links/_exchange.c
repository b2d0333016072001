/* Sending to a server and receiving from it on a blocking socket, without the interpreter lock.

Theory. A socket's send and recv each give up the interpreter lock and take it back. With several threads at work that is
two waits for it in each round trip, of which only the second is of any use: between the two there is nothing to interpret.

Rules:

* The socket has SO_RCVTIMEO and SO_SNDTIMEO, so that one system call both waits and reads. A signal ends such a call early, and
  the next one would wait as long again. So from the first signal on poll() waits, for what is left of the time.
* The errors are those of `exchange_in_python` in exchange.py, and signals are handled as PEP 475 has it.
*/

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <time.h>

#define CHUNK 16384 /* a lock's replies have 40 bytes at the most; of a longer one this is the beginning */

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

/* Wait until the socket is ready, at most until the deadline. Return 0, or -1 and set errno; EAGAIN means that time is up. */
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

/* Send *data*, then receive into *reply* unless it is NULL. Return the size received, or -1 with an exception set. */
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
            continue; /* it was ready for writing and is waited for to be readable, or somebody else was faster */
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
arguments(PyObject *const *args, Py_ssize_t nargs, int *fd, char **data, Py_ssize_t *size, double *seconds)
{
    if (nargs != 3) {
        PyErr_SetString(PyExc_TypeError, "(socket, bytes, seconds)");
        return -1;
    }
    *seconds = PyFloat_AsDouble(args[2]);
    if (*seconds == -1.0 && PyErr_Occurred())
        return -1;
    return PyBytes_AsStringAndSize(args[1], data, size) < 0 || (*fd = descriptor_of(args[0])) < 0 ? -1 : 0;
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

static PyObject *
send_all(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t nargs)
{
    char *data;
    Py_ssize_t size;
    double seconds;
    int fd;

    if (arguments(args, nargs, &fd, &data, &size, &seconds) < 0 || transfer(fd, data, size, NULL, seconds) < 0)
        return NULL;
    /* Not Py_RETURN_NONE: with the headers of 3.12 it adds no reference. Python 3.11 may load the
       same file, and would lose one each time. */
    Py_INCREF(Py_None);
    return Py_None;
}

static PyMethodDef methods[] = {
    {"exchange", (PyCFunction)(void (*)(void))exchange, METH_FASTCALL, "Send bytes; return what comes first of the reply."},
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
