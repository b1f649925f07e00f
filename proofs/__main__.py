"""`python -m schedspec.proofs` is `schedspec prove`."""

from .command import prove

if __name__ == "__main__":
    prove()
