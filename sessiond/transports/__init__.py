"""Byte streams in, whole messages out: framing, and the listeners that hand a stream to the layer above."""
