"""`python -m schedspec` is the console script `schedspec`."""

from schedspec.cli import main

if __name__ == "__main__":
    main()
