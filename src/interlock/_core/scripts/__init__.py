"""One typed constructor per Lua script; the only home of milliseconds.

The texts live in ``lua/<name>.lua``, the constructor of the same name in the module of its kind
of object, loaded as ``_<NAME>``. Functions that several scripts need live in ``lua/parts``. A line
``-- include: <part>`` stands for such a file. A test holds headers, constructors and files
together: declared = used = sent.
"""
