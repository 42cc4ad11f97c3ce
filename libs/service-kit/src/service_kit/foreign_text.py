"""Text of others before it is shown: it cannot move the cursor, colour, hide, turn round or make a second line.

A rank's exception, a node's name, a reason in a message: whoever writes it chooses every character, and a person reads
it in a terminal. Escape sequences can clear the screen, set its title or answer as if the person had typed; a
right-to-left mark lets `gnp.exe` read `exe.png`; a line break makes a line that looks like ours.
"""

from __future__ import annotations


def printable(line: str) -> str:
    """The line with a `?` for everything that is not a visible character or a space (Unicode's Cc, Cf, Cs, Zl, ...)."""
    return line if line.isprintable() else "".join(c if c.isprintable() else "?" for c in line)


def printable_lines(text: str) -> str:
    """Several lines, a traceback for one: line breaks and tabs stay."""
    return "\n".join("\t".join(map(printable, line.split("\t"))) for line in text.split("\n"))
