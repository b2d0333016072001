"""One typed constructor per Lua script: callers give seconds, scripts get milliseconds.

The text of a script is in ``lua/<name>.lua``. The module of its kind of object loads it as
``_<NAME>``, and has a constructor of the same name. Functions that several scripts need are in
``lua/parts``; a line ``-- include: <part>`` stands for such a file. A test checks that headers,
constructors and files agree: what is declared is used and sent. The docstring of a constructor
says what its script does and returns.
"""
