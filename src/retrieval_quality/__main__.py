"""``python -m retrieval_quality`` is the command ``retrieval-quality``."""

from retrieval_quality.cli import main

if __name__ == "__main__":
    main()
