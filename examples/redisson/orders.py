"""Count in a file, under the lock that Orders.java takes as well."""

import sys
from pathlib import Path

import interlock

counter = Path(sys.argv[1])

with interlock.connect() as client:  # REDIS_URL
    lock = client.lock("orders:counter", timeout=30)
    for _ in range(50):
        with lock:
            count = int(counter.read_text())
            counter.write_text(str(count + 1))
