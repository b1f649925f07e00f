"""Published numbers, and what the same system comes to here: constants first, then the comparison.

A reproduction is a file with a `Reproduction` (`framework.py`) and an entry in `catalogue.py`: `schedspec reproduce`.
"""

from .catalogue import REPRODUCTIONS
from .framework import Constant, Report, Reproduction, Row, Run, Target, report_of, reproduce

__all__ = ["REPRODUCTIONS", "Constant", "Report", "Reproduction", "Row", "Run", "Target", "report_of", "reproduce"]
