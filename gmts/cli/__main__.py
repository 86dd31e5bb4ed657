"""`python -m gmts.cli` is `gmts`."""

from gmts.cli.main import main

main()
