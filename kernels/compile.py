"""Every kernel ahead of time, for chips that need not be here: registers, spills and shared memory of each.

    python -m schedspec.kernels.compile [--write]

A spill fails: it means that a tile no longer fits into registers.  So does what only a compiler refuses; the
interpreter takes it."""

import argparse
import multiprocessing
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

WITHOUT = "TRITON_INTERPRET"
TARGETS = ("sm_80", "sm_90", "gfx942")
BLOCK_SIZE = 16
SLOW, QUICK = ("admit_shared", "attention, float32", "attention, bfloat16"), "sm_90"
README = Path(__file__).with_name("README.md")
HEAD = "| kernel | chip | registers | spills | shared memory, bytes | barriers |\n|---|---|---|---|---|---|\n"
PLACES, SEATS = 131_072, 8_192


class Made(NamedTuple):
    """A kernel compiled for a target.  `spills`: bytes on an NVIDIA chip, registers on an AMD one.  `barriers`: in the
    intermediate form, where there are none but those that are written in the kernel."""

    kernel: str
    target: str
    registers: int
    spills: int
    shared_bytes: int
    barriers: int

    @property
    def row(self) -> str:
        return f"| {' | '.join(map(str, self))} |\n"


class Case(NamedTuple):
    """`kinds`: types of arguments that are not int64, or pointers to it.  `on`: constants of one chip."""

    name: str
    function: Any
    constants: dict[str, Any]
    kinds: Mapping[str, str] = MappingProxyType({})
    options: Mapping[str, Any] = MappingProxyType({})
    on: Mapping[str, Mapping[str, Any]] = MappingProxyType({})


def cases() -> list[Case]:
    """Every kernel that is launched; what others call is compiled in them."""
    from .admit_fcfs import admit_fcfs_kernel
    from .admit_shared import admit_shared_kernel
    from .allocate import allocate_kernel
    from .arrays import TILE
    from .budget import budget_kernel
    from .compile_engine import of_engine
    from .issue import issue_kernel
    from .lift import lift_kernel
    from .line import close_up_kernel, kept_kernel, make_room_kernel, merge_kernel, offsets_kernel
    from .look import look_along_kernel, look_kernel
    from .settle import cancel_kernel, settle_kernel
    from .step import step_kernel
    from .victims import victims_kernel
    from .vtc_round import CLIENT_BITS, PICKS, VTC_TILE

    tiled = {"tile": TILE}
    sized = tiled | {"block_size": BLOCK_SIZE}
    of_admission = sized | {"chunked": True}
    of_picks = {"tile": VTC_TILE, "picks": PICKS, "pick_bits": PICKS.bit_length() - 1, "client_bits": CLIENT_BITS}
    placed = tiled | {"places": PLACES}
    seated = placed | {"seats": SEATS}
    asked = {"most": 512, "reserve": 0}
    shared, alone = {"shares": True}, {"shares": False}
    return [
        Case("budget", budget_kernel, sized),
        Case("victims", victims_kernel, tiled),
        Case("admit_fcfs", admit_fcfs_kernel, of_admission),
        Case("admit_fcfs, whole prompts", admit_fcfs_kernel, of_admission | {"chunked": False}),
        Case("allocate", allocate_kernel, tiled),
        Case("step", step_kernel, of_admission),
        Case("settle", settle_kernel, seated | alone),
        Case("settle, groups", settle_kernel, seated | shared),
        Case("cancel", cancel_kernel, seated | shared),
        Case("line: kept", kept_kernel, placed),
        Case("line: offsets", offsets_kernel, tiled),
        Case("line: close_up", close_up_kernel, placed),
        Case("line: make_room", make_room_kernel, {}),
        Case("line: merge", merge_kernel, placed),
        Case("look", look_kernel, seated | asked | alone),
        Case("look, groups", look_kernel, seated | asked | shared),
        Case("look_along", look_along_kernel, placed | asked),
        Case("lift", lift_kernel, placed | {"tile": VTC_TILE}),
        Case("issue", issue_kernel, placed),
        Case("admit_shared", admit_shared_kernel, seated | of_admission | of_picks | {"watermark": 0}),
        *(Case(*case) for case in of_engine()),
    ]


def compiled(case: Case, target: str) -> Made:
    """Pointers are to int64 and numbers are int64, unless the case says something else."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from .arrays import WARPS

    names, own = list(case.function.arg_names), case.constants | dict(case.on.get(target, {}))
    signature = {name: "*i64" if name.endswith("_ptr") else "i64" for name in names}
    signature |= dict.fromkeys(own, "constexpr") | dict(case.kinds)
    constants = {(names.index(name),): value for name, value in own.items()}
    source = ASTSource(case.function, signature, constants)
    is_amd = target.startswith("gfx")
    chip = GPUTarget("hip", target, 64) if is_amd else GPUTarget("cuda", int(target.removeprefix("sm_")), 32)
    made = triton.compile(source, target=chip, options={"num_warps": WARPS} | dict(case.options))
    registers, spills = of_amd(made.asm["amdgcn"]) if is_amd else of_nvidia(made.asm["ptx"], chip.arch)
    barriers = sum("barrier" in line for line in made.asm["ttir"].splitlines())
    return Made(case.name, target, registers, spills, int(made.metadata.shared), barriers)


def compiled_alone(name: str, target: str) -> Made:
    """In a process of its own: what the compiler makes in two threads at once differs from run to run, to a spill."""
    return compiled(next(case for case in cases() if case.name == name), target)


def of_nvidia(ptx: str, arch: int) -> tuple[int, int]:
    """What the assembler says: the object file does not tell of spills."""
    from triton.backends.nvidia.compiler import get_ptxas

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "kernel.ptx"
        file.write_text(ptx, encoding="utf-8")
        chip = f"--gpu-name=sm_{arch}{'a' if arch >= 90 else ''}"
        command = [get_ptxas(arch).path, "-v", chip, str(file), "-o", str(file.with_suffix(".cubin"))]
        told = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    return number_in(r"Used (\d+) registers", told), number_in(r"(\d+) bytes spill stores", told)


def of_amd(assembly: str) -> tuple[int, int]:
    return number_in(r"\.vgpr_count:\s+(\d+)", assembly), number_in(r"\.vgpr_spill_count:\s+(\d+)", assembly)


def number_in(pattern: str, text: str) -> int:
    found = re.search(pattern, text)
    if found is None:
        raise ValueError(f"compile: nothing in what the assembler said is like {pattern!r}; it said {text[:500]!r}")
    return int(found[1])


def with_table(page: str, table: str) -> str:
    """The page with this table for the one that begins in the same way."""
    before, head, after = page.partition("| kernel | chip |")
    if not head:
        raise ValueError(f"compile: {README.name} has no table that begins with '| kernel | chip |'")
    lines = after.split("\n")
    end = next(number for number, line in enumerate(lines) if number and not line.startswith("|"))
    return before + table + "\n".join(lines[end:])


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m schedspec.kernels.compile", description=__doc__.split("\n")[0])
    parser.add_argument("--chip", action="append", choices=TARGETS, help="for this chip alone (repeatable)")
    parser.add_argument("--kernel", action="append", help="only those of this name (repeatable)")
    parser.add_argument("--quick", action="store_true", help=f"what compiles for long only for {QUICK}")
    parser.add_argument("--write", action="store_true", help=f"into {README.name}, for all of them")
    options = parser.parse_args(arguments)
    if options.write and (options.chip or options.kernel or options.quick):
        parser.error("--write is for all kernels and chips: leave the others out")
    if os.environ.pop(WITHOUT, None):
        print(f"{WITHOUT} is set, but what is interpreted is not compiled: unset it", file=sys.stderr)
        return 2
    work = [
        (case.name, chip)
        for case in cases()
        for chip in options.chip or TARGETS
        if not (options.kernel and case.name not in options.kernel)
        and not (options.quick and case.name in SLOW and chip != QUICK)
    ]
    spills, table = 0, HEAD
    print(HEAD, end="")
    with multiprocessing.get_context("fork").Pool(maxtasksperchild=1) as pool:
        for wait in [pool.apply_async(compiled_alone, one) for one in work]:
            made = wait.get()
            spills += made.spills
            table += made.row
            print(made.row, end="", flush=True)
    if options.write:
        README.write_text(with_table(README.read_text(encoding="utf-8"), table), encoding="utf-8")
    if spills:
        print("a kernel spills: take a smaller tile or more warps", file=sys.stderr)
    return int(spills > 0)


if __name__ == "__main__":
    raise SystemExit(main())
