// Collectives: the communication that an engine needs, behind one small interface, so that one rank
// alone needs no process group, tests can count what is moved, and a backend's weak collective can
// be replaced by a better one.
//
// Goals: asynchronous all-gather, reduce-scatter and all-reduce on flat buffers; counts of
// operations and bytes; failures that name operation, unit, step and the ranks that did not answer.
// Non-goals: point-to-point relayout (plan/), process start-up.
// Rejected: torch's functional collectives (a dispatcher call and a Python frame per operation).
//
// Ownership: the implementation keeps the tensors of an operation alive until its Pending is waited
// for or dropped. Thread-safety: one caller at a time; all operations of an engine are issued from
// one place, in one order. Errors: StatusError with code kTimeout when a peer failed or did not
// answer; see FailureBoard.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "shoal/base/executor.h"

namespace shoal::comm {

// What an operation is for; printed in errors, hashed into the order check.
enum class Op : uint8_t {
  kAllGather,      // parameters of a unit
  kReduceScatter,  // gradients of a unit
  kAllReduce,      // gradients of a unit at stage 0, or the step's vector
  kBroadcast,      // initial values
};
const char* OpName(Op op);

// Identifies one operation in errors. `unit` must outlive the operation.
struct OpTag {
  const std::string* unit = nullptr;  // null: the whole engine
  int64_t step = 0;
};

// One buffer of an all-gather: `out` holds size() equal pieces in rank order, `in` is this rank's
// piece. `in` may be the piece inside `out`. Same dtype, contiguous.
struct GatherBuffer {
  at::Tensor out;
  at::Tensor in;
};

// A launched operation. Wait() makes its result usable on the current stream (CPU: blocks) and may
// be called once; dropping an un-waited Pending waits for it, ignoring failures.
class Pending {
 public:
  virtual ~Pending() = default;
  virtual void Wait() = 0;
};

// How often an operation ran and the bytes that its result holds on this rank.
struct OpCount {
  int64_t count = 0;
  int64_t bytes = 0;
};

class Collectives {
 public:
  virtual ~Collectives() = default;

  virtual int64_t rank() const = 0;
  virtual int64_t size() const = 0;

  virtual std::unique_ptr<Pending> AllGather(std::vector<GatherBuffer> buffers, OpTag tag) = 0;

  // Sums `full` (size() equal pieces) over ranks; this rank's piece is written to `dst`, or added
  // to it when `accumulate`. dst may have another dtype; the sum is formed in float32 at least.
  // `scratch` is empty, or as large as `full` (ReduceScratchBytes). `full` must stay unchanged
  // until Wait().
  virtual std::unique_ptr<Pending> ReduceScatter(const at::Tensor& full, const at::Tensor& scratch,
                                                 const at::Tensor& dst, bool accumulate,
                                                 OpTag tag) = 0;
  // Bytes of scratch that ReduceScatter wants for `full_bytes` (0 where the backend reduces by
  // itself).
  virtual int64_t ReduceScratchBytes(int64_t full_bytes) const = 0;
  // Whether this reduce-scatter uses its scratch at all; where not, `scratch` may be undefined.
  virtual bool NeedsScratch(const at::Tensor& full, const at::Tensor& dst,
                            bool accumulate) const = 0;

  // In-place sum over ranks.
  virtual std::unique_ptr<Pending> AllReduce(const at::Tensor& tensor, OpTag tag) = 0;

  // Blocking; in place, from the group's rank `root`.
  virtual void Broadcast(const at::Tensor& tensor, int64_t root, OpTag tag) = 0;

  // Blocking; every rank's text, by rank. Runs through the backend, so it orders with the
  // operations before it.
  virtual std::vector<std::string> AllGatherText(const std::string& text) = 0;

  // By operation name ("all_gather", ...), since construction or the last ResetCounts().
  virtual std::map<std::string, OpCount> Counts() const = 0;
  virtual void ResetCounts() = 0;

  // Gives the groups back; every later operation fails. Waits for nothing.
  virtual void Close() = 0;
};

// The collectives of a rank alone: copies, no process group.
std::unique_ptr<Collectives> MakeSelfCollectives();

// Over two c10d process groups with the same ranks, by their registered names: one for gathers, one
// for reduces (may be the same name). `device` is where the tensors live; `timeout_s` bounds how
// long a failure is diagnosed; `executor` (borrowed, outlives the result) sums the pieces of a
// reduce-scatter on the CPU. On gloo, gathers and reduce-scatters are sends and receives straight
// from and to the flat buffers: gloo's all-gather stages through a second buffer and its
// reduce-scatter is an all-reduce inside (docs/design/0002-gloo-p2p.md).
std::unique_ptr<Collectives> MakeC10dCollectives(const std::string& gather_group,
                                                 const std::string& reduce_group, at::Device device,
                                                 double timeout_s, Executor* executor);

}  // namespace shoal::comm
