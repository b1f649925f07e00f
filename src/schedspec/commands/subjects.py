"""Names of the subjects that come with the project."""

from collections.abc import Mapping

from ..spec.vocabulary import SubjectFactory


def builtin_subjects() -> Mapping[str, SubjectFactory]:
    """Built-in names.  The suite does not know them: to it they are subjects like any other."""
    from .. import optimized
    from ..conformance.subjects import vllm
    from ..optimized import on_device
    from ..reference import make, systems
    from ..reference.faults import FAULTS, factory
    from ..reference.systems import distserve, sketch, vllm_v1
    from ..reference.systems.vllm_v1_wrong import WRONG

    subjects: dict[str, SubjectFactory] = {"reference": make, "optimized": optimized.make, "kernels": on_device.make}
    subjects |= {"vllm": vllm.make, "vllm-raw": vllm.raw}
    subjects |= {"vllm-v1": vllm_v1.make, "vllm-v1-raw": vllm_v1.raw}
    subjects |= {f"vllm-v1-wrong:{name}": model for name, model in WRONG.items()}
    subjects |= sketch.subjects() | systems.subjects() | {"distserve": distserve.make}
    return subjects | {f"fault:{rule}": factory(rule) for rule in FAULTS}
