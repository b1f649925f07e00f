"""One file per command of the command line, or per few that belong together."""
