"""Is a dataset whole? Every file, frame, record and image is checked."""
