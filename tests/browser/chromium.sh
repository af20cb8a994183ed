#!/bin/sh
# Makes sure that a Chromium is there for the browser tests: CHROMIUM, one on the PATH, or playwright's own.
set -e
for name in "$CHROMIUM" chromium chromium-browser google-chrome; do
  if [ -n "$name" ] && command -v "$name" > /dev/null; then exit 0; fi
done
exec "${VENV:-.venv}/bin/python" -m playwright install --with-deps chromium
