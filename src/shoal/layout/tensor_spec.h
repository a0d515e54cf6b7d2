// TensorSpec: name, shape and dtype of a global tensor, whatever its layout.
//
// Thread-safety: a value.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shoal/base/dtype.h"

namespace shoal::layout {

struct TensorSpec {
  std::string name;
  std::vector<int64_t> shape;  // empty: a 0-dim tensor of one element
  DType dtype = DType::kFloat32;

  // Product of the shape; 0 if any dim is 0.
  int64_t numel() const;

  // "weight[4,8]:bfloat16".
  std::string ToString() const;

  friend bool operator==(const TensorSpec&, const TensorSpec&) = default;
};

}  // namespace shoal::layout
