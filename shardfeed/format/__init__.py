"""What is on disk?

Manifest, names, TFRecord framing, Example codec, checksums, hashes. No I/O here.
"""
