"""What the demo plays with: names, sizes and the short timings."""

STREAM = "orders"
GROUP = "billing"

FIRST_SHARDS = 4
MOST_SHARDS = 8
LAST_SHARDS = 3
MEMBERS_A_CONSUMER = 2

TIMING = {"lease": "3s", "heartbeat": "500ms", "tick": "200ms", "routing-lease": "4s"}
LEASE_S = 3.0

RATE = 1_250
"""Records a second that the producer aims at."""

LEAST_RATE = 1_000
"""Below this on average the run proves too little to count."""
