"""What every test run shares."""

from hypothesis import HealthCheck, settings

# How long an example takes says nothing about whether it is right, and depends on who else uses the machine.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")
