"""The real command line over the stand-in engine: `python serve_stand_in.py serve DIR ...`."""

import sys
from pathlib import Path

from encoder_server import cli

ENGINE = (sys.executable, str(Path(__file__).with_name("stand_in_engine.py")))

if __name__ == "__main__":
    sys.exit(cli.main(engine_command=ENGINE))
