"""For frameworks: jobs that run once per period where these start jobs, and a driver for tooz.

Each module needs its framework, and none is imported here.
"""
