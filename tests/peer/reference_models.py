"""Opens the door to torchvision's and Hugging Face's models beside the CPU build of torch. Import it before either. Also
knows the names of Hugging Face's files.

torchvision's wheel from PyPI is built for CUDA: beside a CPU torch its own library does not load, and its Python part stops at
operators that nobody has defined. No model here uses them, so declaring them is enough.
"""
import os
import re

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # everything is built from a configuration; nothing is downloaded

import torch  # noqa: E402

_OPERATORS = [
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width, "
    "int sampling_ratio, bool aligned) -> Tensor",
    "_roi_align_backward(Tensor grad, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width, "
    "SymInt batch_size, SymInt channels, SymInt height, SymInt width, int sampling_ratio, bool aligned) -> Tensor",
    "roi_pool(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width) -> (Tensor, Tensor)",
    "_roi_pool_backward(Tensor grad, Tensor rois, Tensor argmax, float spatial_scale, SymInt pooled_height, "
    "SymInt pooled_width, SymInt batch_size, SymInt channels, SymInt height, SymInt width) -> Tensor",
    "ps_roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width, "
    "int sampling_ratio) -> (Tensor, Tensor)",
    "_ps_roi_align_backward(Tensor grad, Tensor rois, Tensor channel_mapping, float spatial_scale, SymInt pooled_height, "
    "SymInt pooled_width, int sampling_ratio, SymInt batch_size, SymInt channels, SymInt height, SymInt width) -> Tensor",
    "ps_roi_pool(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width) "
    "-> (Tensor, Tensor)",
    "_ps_roi_pool_backward(Tensor grad, Tensor rois, Tensor channel_mapping, float spatial_scale, SymInt pooled_height, "
    "SymInt pooled_width, SymInt batch_size, SymInt channels, SymInt height, SymInt width) -> Tensor",
    "deform_conv2d(Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, SymInt stride_h, SymInt stride_w, "
    "SymInt pad_h, SymInt pad_w, SymInt dilation_h, SymInt dilation_w, SymInt groups, SymInt offset_groups, bool use_mask) "
    "-> Tensor",
    "_deform_conv2d_backward(Tensor grad, Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, "
    "SymInt stride_h, SymInt stride_w, SymInt pad_h, SymInt pad_w, SymInt dilation_h, SymInt dilation_w, SymInt groups, "
    "SymInt offset_groups, bool use_mask) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
    "_cuda_version() -> int",
]

if not hasattr(torch.ops.torchvision, "nms"):
    _library = torch.library.Library("torchvision", "DEF")  # lives as long as the process
    for _operator in _OPERATORS:
        _library.define(_operator)


def published(name):
    """transformers' name of a ViTMAE tensor -> its name in the published files; others stay as they are."""
    name = re.sub(r"^vit\.layers\.", "vit.encoder.layer.", name)
    name = re.sub(r"attention\.(q|k|v)_proj", lambda m: "attention.attention." + {"q": "query", "k": "key", "v": "value"}[m[1]],
                  name)
    name = name.replace("attention.o_proj", "attention.output.dense")
    return name.replace("mlp.fc1", "intermediate.dense").replace("mlp.fc2", "output.dense")
