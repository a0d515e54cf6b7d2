// The C++ types behind the four real float DTypes inside this room.
#pragma once

#include <cstdint>

namespace shoal::optim::internal {

struct BFloat16 {
  uint16_t bits;
};

struct Float16 {
  uint16_t bits;
};

}  // namespace shoal::optim::internal
