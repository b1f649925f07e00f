"""Where there is no CUDA device, kernels are interpreted: that is chosen before anybody imports triton."""

import importlib.util
import os


def has_device() -> bool:
    if importlib.util.find_spec("torch") is None:
        return False
    import torch

    return bool(torch.cuda.is_available())


if not has_device():
    os.environ["TRITON_INTERPRET"] = "1"
