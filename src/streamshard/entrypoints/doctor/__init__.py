"""Looks at what a deployment stands on, and says what to mend."""
