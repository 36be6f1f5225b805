"""What could happen: the states within a bound, where each leads, and runs judged by that."""
