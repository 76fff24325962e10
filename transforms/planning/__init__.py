"""Which parts and shards will there be, and what is the dataset's fingerprint?"""
