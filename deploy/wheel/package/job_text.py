"""A job written as a job file has it (proto/muster/v1/job_spec.proto is the manual) -> JobSpec, by the message's descriptor.

Bounds and defaults are the controller's: it answers with every fault that it finds.
"""

from __future__ import annotations

import re
from typing import Any, Mapping, Optional

from google.protobuf.descriptor import EnumDescriptor, FieldDescriptor

from muster.errors import MusterError
from muster.v1 import job_spec_pb2

_UNITS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9, "d": 86400 * 10**9}
_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|ms|s|m|h|d)")
_WHOLE = {FieldDescriptor.CPPTYPE_INT32, FieldDescriptor.CPPTYPE_INT64, FieldDescriptor.CPPTYPE_UINT32,
          FieldDescriptor.CPPTYPE_UINT64}
_REAL = {FieldDescriptor.CPPTYPE_DOUBLE, FieldDescriptor.CPPTYPE_FLOAT}


def _bad(path: str, what: str, value: Any) -> MusterError:
    return MusterError("INVALID_ARGUMENT", f"{path}: must be {what}; got {value!r}")


def _nanoseconds(path: str, value: Any) -> int:
    what = "a duration such as 90s, 5m, 1h30m or 2d"
    if not isinstance(value, str):
        raise _bad(path, what, value)
    if value == "0":
        return 0
    parts = list(_PART.finditer(value))
    if not parts or "".join(part.group(0) for part in parts) != value:
        raise _bad(path, what, value)
    return round(sum(float(part.group(1)) * _UNITS[part.group(2)] for part in parts))


def _enum_texts(kind: Optional[EnumDescriptor]) -> Mapping[str, int]:
    assert kind is not None
    prefix = re.sub(r"(?<!^)(?=[A-Z])", "_", kind.name).upper() + "_"
    return {(value.name[len(prefix):] if value.name.startswith(prefix) else value.name).lower(): value.number
            for value in kind.values if value.number != 0}


def _scalar(path: str, field: FieldDescriptor, value: Any) -> Any:
    kind = field.cpp_type
    if kind == FieldDescriptor.CPPTYPE_BOOL:
        if not isinstance(value, bool):
            raise _bad(path, "true or false", value)
        return value
    if kind in _WHOLE:
        if isinstance(value, bool) or not isinstance(value, int):
            raise _bad(path, "a whole number", value)
        return value
    if kind in _REAL:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise _bad(path, "a number", value)
        return float(value)
    if kind == FieldDescriptor.CPPTYPE_ENUM:
        texts = _enum_texts(field.enum_type)
        if not isinstance(value, str) or value not in texts:
            raise _bad(path, "one of " + ", ".join(texts), value)
        return texts[value]
    if not isinstance(value, str):
        raise _bad(path, "a string", value)
    return value


def _fill(path: str, tree: Any, message: Any) -> None:
    if message.DESCRIPTOR.full_name == "google.protobuf.Duration":
        nanoseconds = _nanoseconds(path, tree)
        message.seconds, message.nanos = divmod(nanoseconds, 10**9)
        return
    if not isinstance(tree, Mapping):
        raise _bad(path or "the job", "a mapping", tree)
    message.SetInParent()
    for key, value in tree.items():
        below = f"{path}.{key}" if path else str(key)
        field = message.DESCRIPTOR.fields_by_name.get(key)
        if field is None:
            known = ", ".join(sorted(message.DESCRIPTOR.fields_by_name))
            raise MusterError("INVALID_ARGUMENT", f"{below}: there is no such key; there are {known}")
        if value is None:
            continue
        one_of = field.containing_oneof
        if one_of is not None and message.WhichOneof(one_of.name) not in (None, key):
            raise MusterError("INVALID_ARGUMENT", f"{below}: {message.WhichOneof(one_of.name)} is given already")
        _set(below, field, value, message)


def _set(path: str, field: FieldDescriptor, value: Any, message: Any) -> None:
    target = getattr(message, field.name)
    try:
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            if not isinstance(value, Mapping):
                raise _bad(path, "a mapping", value)
            entry = field.message_type.fields_by_name["value"]
            for name, item in value.items():
                if entry.message_type is not None:
                    _fill(f"{path}.{name}", item, target[name])
                else:
                    target[name] = _scalar(f"{path}.{name}", entry, item)
        elif hasattr(target, "append"):
            if isinstance(value, (str, bytes, Mapping)) or not hasattr(value, "__iter__"):
                raise _bad(path, "a list", value)
            for index, item in enumerate(value):
                if field.message_type is not None:
                    _fill(f"{path}[{index}]", item, target.add())
                else:
                    target.append(_scalar(f"{path}[{index}]", field, item))
        elif field.message_type is not None:
            _fill(path, value, target)
        else:
            setattr(message, field.name, _scalar(path, field, value))
    except (ValueError, TypeError) as error:  # out of the field's range, or no UTF-8
        raise MusterError("INVALID_ARGUMENT", f"{path}: {error}") from None


def read_job(tree: Mapping[str, Any]) -> job_spec_pb2.JobSpec:
    """Raises MusterError, INVALID_ARGUMENT, with the path of the first key that is wrong."""
    tree = dict(tree)
    if isinstance(tree.get("ranks"), int):
        tree["ranks"] = {"min": tree["ranks"], "max": tree["ranks"]}
    if isinstance(tree.get("command"), (list, tuple)):
        tree["command"] = {"argv": list(tree["command"])}
    spec = job_spec_pb2.JobSpec()
    _fill("", tree, spec)
    return spec
