"""What does one dataset hold? Its facts, a check of its sizes, a local copy, its first records."""
