"""``python -m cn``: the same as the ``cn`` command."""

from cn.cli.main import run

if __name__ == "__main__":
    run()
