"""What programs do in a run: each workload puts nodes and programs on a scene, and judges the end."""
