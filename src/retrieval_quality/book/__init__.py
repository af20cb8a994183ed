"""Notebooks executed and rendered: what a page shows, the build, and two builds compared."""
