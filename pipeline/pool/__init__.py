"""Processes that make parts beside the local build, one per further core."""
