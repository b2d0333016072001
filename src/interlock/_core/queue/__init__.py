"""Waiters, their places, and who is next. Only this folder changes a waiter or a place."""
