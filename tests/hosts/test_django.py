"""Locks in a small Django project: its views, its settings and its management command."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from tests.hosts.pages import HOW_TO, write_programs

import interlock

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.hosts.host_process import Hosts

MANAGE = """
import os, sys
from django.core.management import execute_from_command_line
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "settings")
execute_from_command_line(sys.argv)
"""
PROJECTS_TESTS = """
import os
import django, pytest
from django.db import connections
from django.test import Client, override_settings

os.environ["DJANGO_SETTINGS_MODULE"] = "settings"
django.setup()

import interlock, interlock.django
from test_shop import *
from interlock.django import apps

URL = os.environ["INTERLOCK_URL"]

@pytest.fixture(autouse=True)
def close():
    yield
    connections.close_all()

def test_views():
    with interlock.connect(URL) as other:
        assert Client().get("/report").content == b"written"
        with other.lock("report"), other.lock("orders:7"):
            assert Client().get("/report").content == b"somebody else writes it"
            assert Client().post("/orders/8/ship").status_code == 200
            assert Client().post("/orders/7/ship").status_code == 423
        assert not other.lock("orders:8").locked()

def test_settings():
    client = interlock.django.client()
    assert client is interlock.django.client()
    with interlock.django.lock("it") as hold:
        assert 9 < hold.remaining <= 10
    with override_settings(INTERLOCK=URL):
        assert interlock.django.client() is not client
        with interlock.django.lock("it") as hold:
            assert hold.remaining > 29
    with override_settings(INTERLOCK=None):
        assert interlock.django.client().lock("it").acquire()  # INTERLOCK_URL of the environment

def test_check():
    assert apps.check_setting() == []
    with override_settings(INTERLOCK=None):
        assert apps.check_setting() == []
    of_dict = ({"url": URL}, {"URL": 17}, {"OPTIONS": {"leese": 1}}, {"OPTIONS": None})
    for wrong in (17, "http://x", {"URL": "redis://x:port"}, *of_dict):
        with override_settings(INTERLOCK=wrong):
            [error] = apps.check_setting()
            assert error.id == "interlock.E001"
"""


@pytest.fixture
def manage(hosts: Hosts) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Make the project of the how-to, and run ``manage.py`` in it."""
    write_programs("django.md", hosts.directory)
    (hosts.directory / "manage.py").write_text(MANAGE)
    (hosts.directory / "test_project.py").write_text(PROJECTS_TESTS)

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "manage.py", *arguments],
            cwd=hosts.directory,
            env=hosts.environ,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    return run


def test_project(manage: Callable[..., object], hosts: Hosts) -> None:
    """The views of the how-to lock under Django's test client, and the setting decides where."""
    assert manage
    plain = ("-q", "-p", "no:cacheprovider", "-p", "no:asyncio", "-W", "error")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *plain, "test_project.py"],
        cwd=hosts.directory,
        env=hosts.environ,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "4 passed" in done.stdout, done.stdout


def test_commands_of_the_page(
    manage: Callable[..., subprocess.CompletedProcess[str]], redis_url: str
) -> None:
    """Each command of the how-to runs, and is not run while another process holds the lock."""
    lines = re.findall(
        r"^\$ python manage.py ([^#\n]*)", (HOW_TO / "django.md").read_text(), re.MULTILINE
    )
    assert len(lines) == 3
    assert manage("migrate", "--verbosity", "0").returncode == 0
    for line in lines:
        done = manage(*shlex.split(line))
        assert (done.returncode, done.stderr) == (0, ""), line
    assert done.stdout == "done\n"
    with interlock.connect(redis_url) as other, other.lock("nightly"):
        silent = manage(*shlex.split(lines[1]))
        assert (silent.returncode, silent.stdout, silent.stderr) == (0, "", "")


def test_command(manage: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path) -> None:
    """The command takes interlock's options and Django's, and explains mistakes."""
    shown = manage(
        "interlock_run",
        "--settings=settings",
        "it",
        "--",
        "sh",
        "-c",
        "echo $INTERLOCK_NAME; exit 3",
    )
    assert (shown.returncode, shown.stdout) == (3, "it\n")
    assert manage("interlock_run", "it", "-c", "exit 4").returncode == 4
    assert manage("interlock_run", "it", "--", "check").returncode == 0
    assert manage("interlock_run", "it").returncode == 64
    assert "-E" in manage("interlock_run", "--help").stdout
    for words in (("-v", "1"), ("-v2",), ("--verbosity", "0"), ("-v",)):
        assert manage("interlock_run", "it", *words, "--", "check").returncode == 0, words
    with (tmp_path / "settings.py").open("a") as settings:
        settings.write("\nfrom datetime import timedelta\n")
        settings.write('INTERLOCK["OPTIONS"] = {"lease": timedelta(seconds=1.5)}\n')
    leased = manage("interlock_run", "it", "--", "sh", "-c", "echo $INTERLOCK_LEASE")
    assert (leased.returncode, leased.stdout, leased.stderr) == (0, "1.5\n", "")
    with (tmp_path / "settings.py").open("a") as settings:
        settings.write('\nINTERLOCK["OPTIONS"] = {"renew_batch": 5}\n')
    refused = manage("interlock_run", "it", "--", "check")
    assert refused.returncode == 64
    assert "renew_batch" in refused.stderr
