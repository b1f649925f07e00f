"""Models of released schedulers: what one version of one system decides, on the parts of the reference.

A model is held to its release step by step (`schedspec parity`).  It is not meant to be legal: where the release
breaks a rule, so does its model.
"""
