"""What a run has shown: plots, the report page, the summary."""
