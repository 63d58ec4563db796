"""The process in which users' stages run: no database, no token, killed at any moment by its guardian."""
