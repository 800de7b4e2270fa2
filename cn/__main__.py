"""``python -m cn``: the same as the ``cn`` command."""

from cn.cli.start import run

if __name__ == "__main__":
    run()
