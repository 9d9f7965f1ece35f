"""The use cases. Knows neither the wire nor files: it plans changes, has a store make them durable, and tells who is
attached.
"""
