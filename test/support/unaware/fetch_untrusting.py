"""Fetches a URL with requests, which looks for nothing in the environment: fetch_untrusting.py URL CA_FILE."""

import sys

import requests

session = requests.Session()
session.trust_env = False
response = session.get(sys.argv[1], verify=sys.argv[2], timeout=20)
response.raise_for_status()
sys.stdout.write(response.text)
