"""An application whose beat sends a task every half second; see beat.sh."""

import os

from celery import Celery

app = Celery("tasks", broker=os.environ["INTERLOCK_URL"])
app.conf.beat_schedule = {"tidy": {"task": "tidy", "schedule": 0.5}}


@app.task(name="tidy")
def tidy() -> None:
    """Do what is due."""
