"""Fetches a URL with urllib, which finds proxy and certificates in the environment."""

import sys
import urllib.request

with urllib.request.urlopen(sys.argv[1], timeout=20) as response:
    sys.stdout.write(response.read().decode())
