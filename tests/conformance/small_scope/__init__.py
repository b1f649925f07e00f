"""Exhaustive search in a small scope: every run of a subject, up to symmetry, and the cycles in which somebody gets
nowhere.

`scope.py` says what may happen, `world.py` makes it happen to a subject, `copies.py` makes a second world of one,
`graph.py` finds all states, `questions.py` has what is asked of them, `lassos.py` the
cycles among them, `story.py` tells one, and `search.py` puts it together.
"""
