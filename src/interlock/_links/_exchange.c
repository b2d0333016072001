/* One exchange with a server: all of a command sent and what is there of its reply received, without the interpreter lock.

Theory. A socket's send and recv each give up the interpreter lock and take it back. With several threads at work that is
two waits for it in each round trip, of which only the second is of any use: between the two there is nothing to interpret.

Rules:

* What `in_python` of exchange.py does, this does: the same errors, and signals handled as PEP 475 has it.
*/

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <errno.h>
#include <sys/socket.h>
#include <sys/types.h>

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

static PyObject *
exchange(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t nargs)
{
    char reply[CHUNK];
    char *data;
    Py_ssize_t size, sent = 0;
    ssize_t done;
    int fd, problem;

    if (nargs != 2) {
        PyErr_SetString(PyExc_TypeError, "exchange(socket, bytes)");
        return NULL;
    }
    if (PyBytes_AsStringAndSize(args[1], &data, &size) < 0 || (fd = descriptor_of(args[0])) < 0)
        return NULL;
    for (;;) {
        Py_BEGIN_ALLOW_THREADS
        done = sent < size ? send(fd, data + sent, size - sent, 0) : 0;
        if (done > 0)
            sent += done;
        if (sent == size)
            done = recv(fd, reply, CHUNK, 0);
        problem = errno;
        Py_END_ALLOW_THREADS
        if (done < 0 && problem != EINTR) {
            errno = problem;
            return PyErr_SetFromErrno(PyExc_OSError);
        }
        if (done >= 0 && sent == size)
            return PyBytes_FromStringAndSize(reply, done);
        /* A signal, which may also have ended a send in the middle. */
        if (PyErr_CheckSignals() < 0)
            return NULL;
    }
}

static PyMethodDef methods[] = {
    {"exchange", (PyCFunction)(void (*)(void))exchange, METH_FASTCALL, "Send bytes; return what comes first of the reply."},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {
#if PY_VERSION_HEX >= 0x030C0000
    {Py_mod_multiple_interpreters, Py_MOD_PER_INTERPRETER_GIL_SUPPORTED},
#endif
#if PY_VERSION_HEX >= 0x030D0000
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
