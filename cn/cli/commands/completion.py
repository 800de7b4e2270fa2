"""``cn completion``: the script that makes a shell complete cn's words."""

from __future__ import annotations

import click

_SHELLS = ("bash", "zsh", "fish")


@click.command("completion")
@click.argument("shell", type=click.Choice(_SHELLS))
def completion_command(shell: str) -> None:
    """Print the completion script for SHELL: commands, options, threads and peers.

    \b
    bash (4.4 or newer):
           cn completion bash > ~/.local/share/bash-completion/completions/cn
           (or in ~/.bashrc:  eval "$(cn completion bash)")
    zsh:   cn completion zsh > a folder of your $fpath, as _cn
           (or in ~/.zshrc, after compinit:  eval "$(cn completion zsh)")
    fish:  cn completion fish > ~/.config/fish/completions/cn.fish

    Then open a new shell.
    """  # noqa: D301  click reads the backspace itself
    from click.shell_completion import get_completion_class

    from cn.cli.main import cli

    found = get_completion_class(shell)
    assert found is not None
    # The script as click has it, without starting bash to ask for its version.
    source = found(cli, {}, "cn", "_CN_COMPLETE")
    click.echo(source.source_template % source.source_vars())
