"""What a release has to be: built by `make release-check`, and by .github/workflows/release.yml."""
