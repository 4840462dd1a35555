"""Writes a wheel with one module: make_wheel.py FOLDER."""

import base64
import hashlib
import sys
import zipfile

INFO = "small_thing-1.2.3.dist-info"
FILES = {
    "small_thing.py": "ORIGIN = 'came through the proxy'\n",
    f"{INFO}/METADATA": "Metadata-Version: 2.1\nName: small-thing\nVersion: 1.2.3\n",
    f"{INFO}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
}


def record_line(name, text):
    digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest())
    return f"{name},sha256={digest.rstrip(b'=').decode()},{len(text.encode())}\n"


with zipfile.ZipFile(f"{sys.argv[1]}/small_thing-1.2.3-py3-none-any.whl", "w") as wheel:
    for name, text in FILES.items():
        wheel.writestr(name, text)
    record = "".join(record_line(name, text) for name, text in FILES.items())
    wheel.writestr(f"{INFO}/RECORD", record + f"{INFO}/RECORD,,\n")
