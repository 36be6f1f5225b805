"""Django: the management command `once`, for a project with `"coterie.contrib.django"` in its INSTALLED_APPS."""
