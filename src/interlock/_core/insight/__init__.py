"""What operators and observers see: events, cards, notes of forced releases."""
