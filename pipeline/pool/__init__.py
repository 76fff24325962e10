"""Which processes make parts beside the local build?"""
