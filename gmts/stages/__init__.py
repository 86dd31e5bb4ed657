"""The pipeline stages as plain typed functions; no Prefect, no DVC."""
