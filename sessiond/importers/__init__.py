"""Other tools' histories as a stream of records: one module per tool, read-only, pure of the service.

`record` has the values that pass to the service, `registry` knows all importers, `draft` turns what a tool says into
messages.
"""
