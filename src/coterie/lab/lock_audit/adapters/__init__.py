"""Adapters of the libraries that the audit knows by name, each as its documentation says that it is used."""
