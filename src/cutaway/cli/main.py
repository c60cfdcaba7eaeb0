"""`cutaway`: the commands in one place, and what happens when one of them fails.

Nothing but typer is imported before a command runs, so that `--help` answers at once.
"""

import sys
import traceback
from io import TextIOWrapper
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import cutaway
from cutaway.cli import (
    about,
    attention,
    attribute,
    diff,
    diff_models,
    fill,
    lab,
    lens,
    models,
    output,
    source,
    tokens,
    trace,
    train,
    trophy,
    verify,
)
from cutaway.cli import next as next_token
from cutaway.errors import CutawayError

ANYWHERE = ("--quiet", "--debug")


class Commands(TyperGroup):
    """Turns an error into one message, and takes --quiet and --debug behind a command too, where people add them."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        end = args.index("--") if "--" in args else len(args)
        early = [arg for arg in args[:end] if arg in ANYWHERE]
        return super().parse_args(ctx, early + [arg for arg in args[:end] if arg not in ANYWHERE] + args[end:])

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except CutawayError as error:
            self.fail(ctx, str(error), 2)
        except KeyboardInterrupt as stop:
            self.fail(ctx, str(stop) or "stopped", 130)
        except Exception as error:
            if hasattr(error, "exit_code") or isinstance(error, BrokenPipeError):  # typer's own, which it knows how to end
                raise
            self.fail(ctx, f"{type(error).__name__}: {error}. This is a mistake in cutaway; --debug shows where", 1)

    @staticmethod
    def fail(ctx: Any, message: str, code: int) -> None:
        if ctx.params.get("debug"):
            traceback.print_exc()
        output.error(message)
        raise typer.Exit(code)


app = typer.Typer(
    cls=Commands,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=True,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
app.command("trophy")(trophy.command)
app.command("next")(next_token.command)
app.command("fill")(fill.command)
app.command("tokens")(tokens.command)
app.command("models")(models.command)
app.command("about")(about.command)
app.command("attention")(attention.command)
app.command("lens")(lens.command)
app.command("attribute")(attribute.command)
app.command("trace")(trace.command)
app.command("diff")(diff.command)
app.command("source")(source.command)
app.command("diff-models")(diff_models.command)
app.command("train")(train.command)
app.add_typer(lab.app, name="lab")
app.command("verify")(verify.command)


def version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"cutaway {cutaway.__version__}")
        raise typer.Exit


@app.callback()
def root(
    show_version: Annotated[bool, typer.Option("--version", callback=version, is_eager=True, help="Print the version and stop.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress, notes or warnings; errors are still shown.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show where an error came from.")] = False,
) -> None:
    """GPT-1, GPT-2 and RoBERTa taken apart: run them, open every step, measure every claim."""
    output.quiet = quiet


def main() -> None:
    """The console's entry point."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors=output.ESCAPED)
    app(prog_name="cutaway")
