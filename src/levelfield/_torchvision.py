"""Import torchvision also when its compiled operators do not match the installed torch.

With a CPU-only torch, torchvision from PyPI cannot load its compiled operators and fails with "operator
torchvision::nms does not exist". levelfield uses none of them, so declaring the two names is enough. Import this module
before torchvision or timm.
"""

import sys

import torch

try:
    import torchvision
except RuntimeError as error:
    if "torchvision::nms" not in str(error):
        raise
    for _name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
        del sys.modules[_name]  # half imported
    _operators = torch.library.Library("torchvision", "DEF")
    for _name in ("nms", "qnms"):
        _operators.define(f"{_name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    import torchvision  # noqa: F401
