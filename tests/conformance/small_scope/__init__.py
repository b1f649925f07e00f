"""Exhaustive search in a small scope: every run of a subject, up to symmetry, the cycles in which somebody gets
nowhere, and the transitions that break a rule.

`scope.py` says what may happen, `world.py` makes it happen to a subject, `copies.py` makes a second world of one,
`graph.py` finds all states, `questions.py` has what is asked of them, `lassos.py` the cycles among them; `judge.py` is
the monitor beside a world, `walk.py` takes it through every transition, `breaks.py` finds the shortest run that breaks
a rule; `runs.py` is for subjects that do not say what of their state matters; `story.py` tells what was found,
`search.py` puts it together, and `cases.py` has it as plain data.
"""
