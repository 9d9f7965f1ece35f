"""Other people's machines: locales, closed descriptors, odd homes, pipes that somebody waits at."""
