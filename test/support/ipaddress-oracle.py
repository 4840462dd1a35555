"""Says of each address on standard input, one a line, whether Python takes it for global.

With the argument "ranges" it prints the ranges that Python itself knows instead, one a line.
"""

import ipaddress
import platform
import sys


def known_ranges():
    for kind in (ipaddress._IPv4Constants, ipaddress._IPv6Constants):
        for value in vars(kind).values():
            for network in value if isinstance(value, list) else [value]:
                if isinstance(network, (ipaddress.IPv4Network, ipaddress.IPv6Network)):
                    yield str(network)


def main():
    if sys.argv[1:] == ["ranges"]:
        print("\n".join(sorted(set(known_ranges()))))
        return
    print(platform.python_version())
    answers = [
        "1" if ipaddress.ip_address(line.strip()).is_global else "0"
        for line in sys.stdin
    ]
    print("\n".join(answers))


main()
