"""Servers to be broken: started on this machine, suspended, killed and started again, behind proxies that lose bytes."""
