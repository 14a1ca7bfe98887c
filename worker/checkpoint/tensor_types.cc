#include "worker/checkpoint/tensor_types.h"

#include "common/base/check.h"

namespace muster::worker {
namespace {

struct Row {
  c10::ScalarType torch;
  TensorType ours;
};
constexpr Row kRows[] = {
    {c10::ScalarType::Double, TensorType::kF64}, {c10::ScalarType::Float, TensorType::kF32},
    {c10::ScalarType::Half, TensorType::kF16},   {c10::ScalarType::BFloat16, TensorType::kBF16},
    {c10::ScalarType::Long, TensorType::kI64},   {c10::ScalarType::Int, TensorType::kI32},
    {c10::ScalarType::Char, TensorType::kI8},    {c10::ScalarType::Byte, TensorType::kU8},
    {c10::ScalarType::Bool, TensorType::kBool},
};

}  // namespace

std::optional<TensorType> ToTensorType(c10::ScalarType type) {
  for (const Row& row : kRows) {
    if (row.torch == type) return row.ours;
  }
  return std::nullopt;
}

c10::ScalarType ToScalarType(TensorType type) {
  for (const Row& row : kRows) {
    if (row.ours == type) return row.torch;
  }
  CheckFailed(__FILE__, __LINE__, "type", "every tensor type has a row");
}

}  // namespace muster::worker
