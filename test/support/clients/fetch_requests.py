"""Fetches a URL with requests, which finds proxy and certificates in the environment."""

import sys

import requests

response = requests.get(sys.argv[1], timeout=20)
response.raise_for_status()
sys.stdout.write(response.text)
