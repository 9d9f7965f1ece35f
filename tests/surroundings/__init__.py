"""Other people's machines: locales, closed descriptors, odd homes, pipes with waiting readers."""
