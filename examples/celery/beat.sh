#!/bin/sh
# One beat in a fleet: start this on every machine that has tasks.py, under a supervisor that starts
# it again when it ends. One beat holds the lock "celery-beat" and sends what is due; the others
# wait. When it ends, the next one starts at once; when it dies, within a lease. A beat that loses
# the lock is stopped.
#
# Celery's own scheduler keeps the times of the last runs in a file of one machine. If a task that
# falls due between two beats must still be sent, keep them where all beats find them: with
# `--scheduler redbeat.RedBeatScheduler` (and `redbeat_lock_key = None`, because this lock takes the
# place of its own), or with django-celery-beat.
exec interlock run --lease 2 celery-beat -- celery -A tasks beat --loglevel info --pidfile=
