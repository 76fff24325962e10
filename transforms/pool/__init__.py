"""Where do codecs run, so that a file that crashes or hangs one costs one image?"""
