"""Locks on a server that keeps queues of leased entries: etcd, PostgreSQL, MariaDB, Redis, ZooKeeper, NATS, S3."""
