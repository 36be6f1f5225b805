"""One session for servers that know compare-and-set: MariaDB and MySQL."""
