"""One session for servers that know compare-and-set: MariaDB, MySQL, NATS and S3."""
