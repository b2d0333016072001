"""Every lock-like: acquire, re-enter, release and extend, once for all kinds."""
