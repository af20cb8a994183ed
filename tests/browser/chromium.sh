#!/bin/sh
# Makes sure that a Chromium is there for the browser tests: CHROMIUM, one on the PATH, the
# distribution's where we may install it, or else playwright's own.
set -e
for name in "$CHROMIUM" chromium chromium-browser google-chrome; do
  if [ -n "$name" ] && command -v "$name" > /dev/null; then exit 0; fi
done
if [ "$(id -u)" = 0 ] && [ -f /etc/debian_version ] && apt-get update -qq \
  && apt-get install -qq -y --no-install-recommends chromium > /dev/null; then exit 0; fi
exec "${VENV:-.venv}/bin/python" -m playwright install --with-deps chromium
