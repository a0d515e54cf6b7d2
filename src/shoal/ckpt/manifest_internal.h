// Parts of the manifest's rules that writing needs too.
#pragma once

#include <string>

#include "shoal/base/status.h"
#include "shoal/ckpt/manifest.h"

namespace shoal::ckpt {

// `tensor "w" (exp_avg)`, for messages.
std::string Describe(const TensorRecord& tensor);

// Name, role, shape and dim_order; the pieces are not looked at.
Status CheckTensorRecord(const TensorRecord& tensor);

}  // namespace shoal::ckpt
