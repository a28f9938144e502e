"""``streamshard completion``: what a shell needs to complete commands and options."""

import click
from click.shell_completion import get_completion_class

SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print a script that completes commands and options in SHELL.

    For bash: eval "$(streamshard completion bash)" in ~/.bashrc; zsh likewise; for fish: streamshard completion fish
    | source.
    """
    kind = get_completion_class(shell)
    assert kind is not None, "click knows these shells"
    # The version of bash is looked at by click's own script only when it is made for the shell that runs it.
    script = kind(click.get_current_context().find_root().command, {}, "streamshard", "_STREAMSHARD_COMPLETE")
    click.echo(script.source_template % script.source_vars())
