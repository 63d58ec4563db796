"""A worker that is elsewhere: it reaches its server over HTTP, with no database and no shared disk."""
