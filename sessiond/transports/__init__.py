"""Byte streams in, whole messages out: framing, and the listeners that pass a stream to the layer above."""
