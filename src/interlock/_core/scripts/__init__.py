"""The scripts, and how their replies are read; milliseconds and microseconds end here."""
