"""Output files: staged under the token, sealed with a manifest, published by one rename."""
