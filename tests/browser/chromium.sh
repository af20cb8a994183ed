#!/bin/sh
# What the browser tests need: the newest axe where npm can bring it (it finds more than the one that
# the Python package carries), and a Chromium: CHROMIUM, one on the PATH, the distribution's where we
# may install it, or else playwright's own.
set -e
if command -v npm > /dev/null; then
  npm install --silent --no-save --prefix _build/axe axe-core@latest > /dev/null 2>&1 \
    || echo "npm brought no axe-core: the browser tests use the one of their Python package" >&2
fi
for name in "$CHROMIUM" chromium chromium-browser google-chrome; do
  if [ -n "$name" ] && command -v "$name" > /dev/null; then exit 0; fi
done
if [ "$(id -u)" = 0 ] && [ -f /etc/debian_version ] && apt-get update -qq \
  && apt-get install -qq -y --no-install-recommends chromium > /dev/null; then exit 0; fi
exec "${VENV:-.venv}/bin/python" -m playwright install --with-deps chromium
