"""Token scores and exact top-k selection, on one process or many."""
