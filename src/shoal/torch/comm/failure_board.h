// FailureBoard: turns a backend's failure ("connection closed by peer") into an error that names
// the ranks at fault.
//
// Each rank that sees an operation fail writes what it was doing into the group's store, then reads
// what the others wrote for a bounded time. Ranks that wrote nothing exited or are stuck: they are
// named. Where the store itself is gone, the process that hosts it (usually rank 0) is.
//
// Thread-safety: none; used after a failure, from the place that issues operations.
#pragma once

#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <cstdint>
#include <string>

#include "shoal/base/status.h"
#include "shoal/torch/comm/collectives.h"

namespace shoal::comm {

class FailureBoard {
 public:
  FailureBoard(c10::intrusive_ptr<c10d::Store> store, int64_t rank, int64_t size, double timeout_s);

  // The error of this rank's failed operation. Blocks until every rank has reported, at most min(5
  // s, timeout).
  Status Report(Op op, OpTag tag, const std::string& backend_error);

 private:
  c10::intrusive_ptr<c10d::Store> store_;
  int64_t rank_;
  int64_t size_;
  double wait_s_;
};

}  // namespace shoal::comm
