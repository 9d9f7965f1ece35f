"""The formats of a store's files: one module per format, pure functions over bytes.

A format never does I/O, never fails on bad input (it reports damage as problems) and keeps no state.
"""
