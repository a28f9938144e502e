"""Who is let in, to what, how often, and what is put on record of it."""
