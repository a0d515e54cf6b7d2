#include "shoal/base/check.h"
#include "shoal/torch/comm/collectives.h"

namespace shoal::comm {

const char* OpName(Op op) {
  switch (op) {
    case Op::kAllGather:
      return "all_gather";
    case Op::kReduceScatter:
      return "reduce_scatter";
    case Op::kAllReduce:
      return "all_reduce";
    case Op::kBroadcast:
      return "broadcast";
  }
  SHOAL_CHECK(false, "unknown Op");
  return "";
}

}  // namespace shoal::comm
