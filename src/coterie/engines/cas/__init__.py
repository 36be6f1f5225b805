"""One session for servers that know compare-and-set: MariaDB, MySQL and NATS."""
