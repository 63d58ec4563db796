"""Where the truth is: rows in one database, changed only by the operations in this package."""
