"""From rows to counts, correlations, and how sure they are."""
