"""The published format: read strictly, kept in columns, checked, fetched or simulated."""
