"""`phalanx inject`: breaks a drill's node, one fault at a time, and mends it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from phalanx_cli.commands.bus_question import fail
from phalanx_cli.drill.injection import Kind, Witness
from phalanx_cli.foreign_text import print_lines
from phalanx_cli.stack import developer

EXIT_REFUSED = 1
EXIT_NO_NODE = developer.EXIT_NOT_RUNNING
EXIT_USAGE = 2
MESSAGE_MAX = 1_024

EPILOG = """\
Kinds, and what their VALUE is:

  xid CODE                  a line of the kernel log; 79 also loses the GPU, 48, 63, 64, 94 and 95 show in its memory

  sxid CODE                 of an NVSwitch

  ecc [uncorrected|corrected]   one more error

  row-remap [pending|failure]

  thermal [CELSIUS]         default 95; below the GPU's limit only its peers can tell

  nvlink [down|errors]      of --link

  pcie [LANES]              default 8 of 16

  nic [INTERFACE]           its link goes down; default eth0

  gpu-lost                  NVML loses the GPU, and the kernel log says nothing

  hang                      calls for the GPU do not come back

  recovery-action [NUMBER]  what the driver wants: 1 GPU reset (default), 2 node reboot, ...

  mismatch                  the driver was upgraded under the agent

  kmsg TEXT                 any line of the kernel log

  clear                     everything that was injected is undone

Examples:

  phalanx host --kmsg d/kmsg --nvml-library LIBRARY --data-dir d      a node for drills (docs/nvml.md)

  phalanx inject xid 79 --gpu 3 --data-dir d

  phalanx inject xid 31 --gpu 1 --pid 4711 --process python3 --data-dir d

  phalanx inject thermal 91 --gpu 2 --data-dir d && phalanx inject thermal --gpu 2 --undo --data-dir d
"""


def inject(
    kind: Annotated[Kind, typer.Argument(help="What to break.")],
    value: Annotated[str, typer.Argument(help="What of it; see below.")] = "",
    node: Annotated[str, typer.Option(help="Name of the node; default: the only one with a host role here.")] = "",
    data_dir: Annotated[Path, typer.Option(help="Folder of the host role.")] = developer.DEFAULT_DATA_DIR,
    gpu: Annotated[int, typer.Option(min=0, max=15, help="Index of the GPU.")] = 0,
    link: Annotated[int, typer.Option(min=0, max=17, help="NVLink of the GPU.")] = 0,
    pid: Annotated[int | None, typer.Option(min=1, help="Process that an Xid names.")] = None,
    process: Annotated[str, typer.Option(help="Name of that process.")] = "",
    message: Annotated[str, typer.Option(help="Text of the line, instead of the driver's usual one.")] = "",
    witness: Annotated[Witness, typer.Option(help="Who tells an Xid.")] = Witness.KERNEL,
    undo: Annotated[bool, typer.Option("--undo", help="Put back what this kind changed on this GPU.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Also on a real kernel log; never on real GPUs.")] = False,
) -> None:
    """Break a node for a drill: writes to its fake GPU library and to the file that it takes for the kernel log.

    Refuses on a node with a real kernel log or real GPUs.

    Exit code 0 done; 1 refused; 2 the order makes no sense; 3 no such node.
    """
    from phalanx_cli.drill.carry_out import Done, Refused, content
    from phalanx_cli.drill.carry_out import inject as carry_out
    from phalanx_cli.drill.carry_out import undo as put_back
    from phalanx_cli.drill.injection import BadDrill, Order, gpu_of
    from phalanx_cli.drill.node_card import NoSuchNode, find_node

    try:
        card = find_node(data_dir, node)
        order = Order(
            kind=kind,
            value=value,
            gpu=gpu_of(content(card), gpu),
            message=message[:MESSAGE_MAX],
            pid=pid,
            process=process,
            link=link,
            witness=witness,
        )
        done: Done
        if kind is Kind.CLEAR:
            done = put_back(card, None)
        else:
            done = put_back(card, order) if undo else carry_out(card, order, force=force)
    except NoSuchNode as error:
        raise typer.Exit(fail("inject", str(error), EXIT_NO_NODE)) from error
    except (BadDrill, ValueError) as error:
        raise typer.Exit(fail("inject", str(error), EXIT_USAGE)) from error
    except (Refused, OSError) as error:
        raise typer.Exit(fail("inject", str(error), EXIT_REFUSED)) from error
    print_lines([f"node {card.node_id}", *(f"  wrote {line}" for line in done.wrote), f"  expect {done.expect}"])
