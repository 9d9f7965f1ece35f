"""What a store's files look like: one module per format, pure functions over bytes.

A format never does I/O, never fails on input (damage comes back as problems) and keeps no state.
"""
