"""Count in a file, under the lock that Orders.java takes as well.

The argument is the file, which holds a number: ``echo 0 > count; python orders.py count``.
The server is that of REDIS_URL.
"""

import sys
from pathlib import Path

import interlock

if len(sys.argv) != 2 or not Path(sys.argv[1]).is_file():  # noqa: PLR2004
    sys.exit("usage: orders.py FILE (a file with a number in it: echo 0 > FILE)")
counter = Path(sys.argv[1])

with interlock.connect() as client:
    lock = client.lock("orders:counter", timeout=30)
    for _ in range(50):
        with lock:
            count = int(counter.read_text())
            counter.write_text(str(count + 1))
