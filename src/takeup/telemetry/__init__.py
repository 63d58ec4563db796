"""What a running system tells about itself."""
