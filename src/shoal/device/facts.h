// DeviceFacts: what is known about one GPU, asked of the driver and never assumed (MIG and MPS
// change the number of multiprocessors).
//
// Thread-safety: a value.
#pragma once

#include <cstdint>
#include <string>

namespace shoal::device {

struct DeviceFacts {
  int32_t ordinal = 0;     // as the driver counts: after CUDA_VISIBLE_DEVICES
  int32_t capability = 0;  // 90 for 9.0
  int32_t num_sms = 0;
  int64_t shared_bytes_per_block = 0;  // the most that a kernel can opt in to
  int64_t shared_bytes_per_sm = 0;
  int64_t l2_bytes = 0;
  int64_t memory_bytes = 0;
  bool is_mig = false;
  bool is_integrated = false;  // Tegra
  std::string name;
  std::string uuid;  // "GPU-...", or "MIG-..." for a slice
};

}  // namespace shoal::device
