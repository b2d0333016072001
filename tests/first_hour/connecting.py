"""Mistakes with URLs, servers and options."""

from __future__ import annotations

from tests.first_hour.mistake import Mistake, program

_USE = 'with interlock.connect("{}") as client, client.lock("x"):\n    pass\n'


def _url(name: str, url: str, *says: str) -> Mistake:
    return program(name, "import interlock\n\n" + _USE.format(url), *says)


CONNECTING: list[Mistake] = [
    _url(
        "no server",
        "redis://127.0.0.1:1",
        "ServerUnavailableError",
        "cannot connect to 127.0.0.1:1: Connection refused",
    ),
    _url("no such host", "redis://no-such-host.invalid", "no-such-host.invalid"),
    _url("no scheme", "localhost:6379", "ConfigError", "redis://"),
    _url("a web address", "http://localhost", "ConfigError", "redis://"),
    _url("a wrong port", "redis://localhost:six", "ConfigError", "port"),
    _url("a wrong database", "redis://localhost/main", "ConfigError", "database"),
    _url(
        "a typo in an option", "redis://localhost?socket_timout=3", "did you mean 'socket_timeout'?"
    ),
    _url(
        "an option of a client in the URL",
        "redis://localhost?lease=3",
        "unknown option",
        "connect(",
    ),
    _url(
        "a cluster URL for a plain server",
        "redis+cluster://127.0.0.1:URL_PORT",
        "cluster",
        "redis://",
    ),
    _url(
        "a Sentinel URL for a plain server",
        "redis+sentinel://127.0.0.1:URL_PORT/main",
        "is not a Sentinel",
    ),
    _url(
        "a Sentinel URL without a name", "redis+sentinel://127.0.0.1:26379", "ConfigError", "name"
    ),
    _url("TLS at a plain server", "rediss://127.0.0.1:URL_PORT", "TLS", "redis://"),
    _url(
        "a password that the server does not want", "redis://:secret@127.0.0.1:URL_PORT", "password"
    ),
    _url(
        "a user that is not there",
        "redis://me:secret@127.0.0.1:URL_PORT",
        "refused the user name or password",
    ),
    _url("a database that is not there", "redis://127.0.0.1:URL_PORT/99", "99"),
    _url(
        "a slash in a password",
        "redis://:pass/word@127.0.0.1:URL_PORT",
        "in a password percent-encoded",
    ),
    program(
        "a wrong URL in the environment",
        """
        import os
        os.environ["INTERLOCK_URL"] = "localhost:6379"
        import interlock
        interlock.connect()
        """,
        "redis://",
        "the URL is that of INTERLOCK_URL",
    ),
    program(
        "options in a dict",
        """
        import interlock
        interlock.connect("redis://localhost", options={"lease": 3})
        """,
        "TypeError",
        "connect(url, lease=10)",
    ),
    program(
        "the timeout of a client",
        """
        import interlock
        interlock.connect("redis://localhost", timeout=3)
        """,
        "client.lock(name, timeout=seconds)",
        "command_timeout=seconds",
    ),
    program(
        "a Ctrl-C that ends a wait",
        """
        import interlock, os, signal, threading
        with interlock.connect() as other, interlock.connect() as client:
            other.lock("x").acquire()
            threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
            client.lock("x").acquire()
        """,
        "KeyboardInterrupt",
        code=-2,
    ),
    program(
        "no socket",
        """
        import interlock
        with interlock.connect("unix:///nowhere/redis.sock") as client, client.lock("x"):
            pass
        """,
        "/nowhere/redis.sock",
        "No such file",
    ),
    program(
        "the port of a web server",
        """
        import http.server, threading, interlock
        class Quiet(http.server.SimpleHTTPRequestHandler):
            def log_message(self, *args): ...
        server = http.server.HTTPServer(("127.0.0.1", 0), Quiet)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with interlock.connect(f"redis://127.0.0.1:{server.server_port}") as client:
            client.lock("x").acquire()
        """,
        "is not a Redis server",
    ),
    program(
        "an option of redis-py",
        """
        import interlock
        interlock.connect("redis://localhost", socket_timeout=10)
        """,
        "socket_timeout",
        "command_timeout",
    ),
    program(
        "decode_responses",
        """
        import interlock
        interlock.connect("redis://localhost", decode_responses=True)
        """,
        "decode_responses",
        "not needed",
    ),
    program(
        "host and port",
        """
        import interlock
        interlock.connect(host="localhost", port=6379)
        """,
        "redis://",
    ),
    program(
        "a password as a keyword",
        """
        import interlock
        interlock.connect("redis://localhost", password="x")
        """,
        "in the URL",
    ),
    program(
        "a client of redis-py",
        """
        import interlock, redis
        interlock.connect(redis.Redis())
        """,
        "Client.from_redis(client)",
    ),
    program(
        "a URL in from_redis",
        """
        import interlock
        interlock.Client.from_redis("redis://localhost")
        """,
        "connect(url)",
    ),
    program(
        "no URL",
        """
        import os
        for name in ("INTERLOCK_URL", "REDIS_URL"):
            os.environ.pop(name, None)
        import interlock
        interlock.connect().close()
        """,
        "EmbeddedWarning",
        "only your processes on this machine share",
        "set INTERLOCK_URL",
        code=0,
    ),
    program(
        "missing rights",
        """
        import interlock, os, redis
        url = os.environ["INTERLOCK_URL"]
        server = redis.Redis.from_url(url)
        server.execute_command("ACL", "SETUSER", "poor", "on", ">pw", "~*", "&*", "+ping", "+hello")
        try:
            with interlock.connect(url.replace("redis://", "redis://poor:pw@")) as client:
                client.lock("x").acquire()
        finally:
            server.execute_command("ACL", "DELUSER", "poor")
        """,
        "does not permit this user",
        "`interlock doctor` prints the rights",
    ),
    program(
        "fakeredis",
        """
        import interlock, redis
        class FakeRedis(redis.Redis): ...
        FakeRedis.__module__ = "fakeredis._connection"
        interlock.Client.from_redis(FakeRedis())
        """,
        "fakeredis",
        "interlock_fake",
    ),
    program(
        "a name of redis",
        """
        import interlock
        interlock.Redis("localhost")
        """,
        "AttributeError",
        "interlock.connect(url)",
    ),
    program(
        "from_url",
        """
        import interlock
        interlock.from_url("redis://localhost")
        """,
        "interlock.connect(url)",
    ),
    program(
        "the error of redis-py",
        """
        import interlock
        try:
            pass
        finally:
            interlock.LockError
        """,
        "interlock.errors",
    ),
    program(
        "an option of Redisson",
        """
        import interlock
        interlock.connect("redis://localhost", lock_watchdog_timeout=10_000)
        """,
        "unknown option 'lock_watchdog_timeout': use lease=seconds",
    ),
    program(
        "a module that is not loaded",
        """
        import interlock
        interlock.trio.connect("redis://localhost")
        """,
        "AttributeError: interlock.trio is not loaded: write import interlock.trio",
    ),
    program(
        "await of a client for threads",
        """
        import asyncio, interlock
        async def main():
            client = await interlock.connect("redis://localhost")
        asyncio.run(main())
        """,
        "TypeError",
        "can't be used in 'await' expression",
    ),
    program(
        "await of a client for tasks",
        """
        import asyncio, interlock.asyncio
        async def main():
            client = await interlock.asyncio.connect("redis://localhost")
        asyncio.run(main())
        """,
        "TypeError",
        "can't be used in 'await' expression",
    ),
]
