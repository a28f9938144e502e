"""The coordinator over HTTP: Starlette for the routes, msgspec at the edge."""
