"""What coordinators stand on: each module grants locks by other means."""
