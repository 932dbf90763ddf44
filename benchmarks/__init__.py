"""Measurements that are run by hand from the project's root; nothing here is installed."""
