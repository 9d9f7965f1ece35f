"""The same client for asyncio. Nothing here is imported by `connect`."""
