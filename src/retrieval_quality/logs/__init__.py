"""One's own retrieval: logs of other tools to one table, to numbers, comparisons and a choice."""
