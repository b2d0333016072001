"""The fault lab: real processes, real servers, real faults, and a checker that judges them."""
