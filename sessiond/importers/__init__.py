"""Other tools' histories as a stream of records: one module per tool, read-only, independent of the service.

`record` has the values passed to the service, `registry` knows all importers, and `draft` turns a tool's records into
messages.
"""
