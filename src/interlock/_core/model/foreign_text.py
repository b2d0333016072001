"""Text that others have written, made safe to show and to log.

Rules:

* Text of a server, a card or a holder id passes `safe` where it is read. So errors, logs, callbacks
  and pages get safe text, and need not know where it came from.
* Names are the exception: what was read is the name of a key, and must stay it. They are shown with
  ``!r`` or with `safe`.
"""

from __future__ import annotations


def safe(text: str) -> str:
    r"""Return *text* with all escaped that is not printable, as in ``\x1b``.

    Those are line ends, terminal codes, other control characters, marks that change the direction
    of writing, characters without a width, and halves of characters. To do it twice changes
    nothing.
    """
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode() for each in text
    )
