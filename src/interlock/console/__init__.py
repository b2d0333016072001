"""The web console: pages that show who holds and awaits what; needs the extra ``console``.

It only reads. `reading` asks the servers while somebody looks on, `graph` draws who waits for whom,
and `app` makes the pages. The pages work without a script; a small one keeps them up to date.
"""

from interlock.console.app import make_app

__all__ = ["make_app"]
