"""What operators and observers see: events, cards, deadlocks, notes of forced releases."""
