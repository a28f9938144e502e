"""``streamshard``: serve a coordinator, or operate one over HTTP."""
