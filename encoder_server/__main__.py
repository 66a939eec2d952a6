"""`python -m encoder_server`: the same as the command encoder-server."""

import sys

from encoder_server.cli import main

if __name__ == "__main__":
    sys.exit(main())
