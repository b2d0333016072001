"""Locks in a small Django project: its views, its settings and its commands."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys

import pytest
from tests.hosts.host_process import Hosts
from tests.hosts.pages import HOW_TO, write_programs
from tests.support.program import run

import interlock

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

def test_a_wrong_setting():
    of_dict = ({"url": URL}, {"URL": 17}, {"OPTIONS": {"leese": 1}}, {"OPTIONS": None})
    for wrong in (17, "http://x", {"URL": "redis://x:port"}, *of_dict):
        with override_settings(INTERLOCK=wrong), pytest.raises(interlock.ConfigError):
            interlock.django.client()
"""


@pytest.fixture
def project(hosts: Hosts) -> Hosts:
    write_programs("django.md", hosts.directory)
    (hosts.directory / "manage.py").write_text(MANAGE)
    (hosts.directory / "test_project.py").write_text(PROJECTS_TESTS)
    return hosts


def run_in(project: Hosts, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run(sys.executable, *arguments, cwd=project.directory, env=project.environ)


def test_project(project: Hosts) -> None:
    """The views of the how-to lock under Django's test client, and the setting decides where."""
    plain = ("-q", "-p", "no:cacheprovider", "-p", "no:asyncio", "-W", "error")
    done = run_in(project, "-m", "pytest", *plain, "test_project.py")
    assert "4 passed" in done.stdout, done.stdout


def test_commands_of_the_page(project: Hosts, redis_url: str) -> None:
    """Each command of the how-to runs, and is not run while another process holds the lock."""
    page = (HOW_TO / "django.md").read_text()
    lines = re.findall(r"^\$ (interlock [^#\n]*)", page, re.MULTILINE)
    assert len(lines) == 2
    commands = [shlex.split(line.replace("-- python", f"-- {sys.executable}")) for line in lines]
    migrate = run_in(project, "manage.py", "migrate", "--verbosity", "0")
    assert migrate.returncode == 0, migrate.stderr
    for command in commands:
        done = run_in(project, "-m", *command)
        assert (done.returncode, done.stderr) == (0, ""), command
    with interlock.connect(redis_url) as other, other.lock("nightly"):
        silent = run_in(project, "-m", *commands[1])
        assert (silent.returncode, silent.stdout, silent.stderr) == (0, "", "")
