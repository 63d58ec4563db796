"""Judges a package, ours or anybody's, by what its files hold."""
