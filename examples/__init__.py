"""Own rewards, data sources and scores, as params.yaml names them; copy and change."""
