"""As much of ``curl -sS -X METHOD -d DATA URL`` as the pages use, for machines that have none."""

import argparse

import httpx


def main() -> None:
    """Print the body of the answer, whatever its status."""
    parser = argparse.ArgumentParser()
    parser.add_argument("-sS", action="store_true")
    parser.add_argument("-X", dest="method", default="GET")
    parser.add_argument("-d", dest="body")
    parser.add_argument("url")
    asked = parser.parse_args()
    print(httpx.request(asked.method, asked.url, content=asked.body, trust_env=False).text)


if __name__ == "__main__":
    main()
