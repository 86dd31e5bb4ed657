"""How a run is watched: metrics, trackers, progress."""
