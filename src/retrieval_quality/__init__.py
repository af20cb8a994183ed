"""Companion to "How important is Recall for Measuring Retrieval Quality?" (arXiv 2512.20854)."""
