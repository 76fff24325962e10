"""Properties are not timed: a machine that is busy must not fail a test."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
