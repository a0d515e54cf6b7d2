// A rank alone: every collective is a copy, or nothing.
#include <ATen/ops/empty.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "shoal/torch/comm/collectives.h"
#include "shoal/torch/comm/op_counter.h"

namespace shoal::comm {
namespace {

class DonePending : public Pending {
 public:
  void Wait() override {}
};

class SelfCollectives : public Collectives {
 public:
  int64_t rank() const override { return 0; }
  int64_t size() const override { return 1; }

  std::unique_ptr<Pending> AllGather(std::vector<GatherBuffer> buffers, OpTag /*tag*/) override {
    int64_t bytes = 0;
    for (const GatherBuffer& buffer : buffers) {
      bytes += static_cast<int64_t>(buffer.out.nbytes());
      if (buffer.out.const_data_ptr() != buffer.in.const_data_ptr()) buffer.out.copy_(buffer.in);
    }
    counter_.Add(Op::kAllGather, bytes);
    return std::make_unique<DonePending>();
  }

  std::unique_ptr<Pending> ReduceScatter(const at::Tensor& full, const at::Tensor& /*scratch*/,
                                         const at::Tensor& dst, bool accumulate,
                                         OpTag /*tag*/) override {
    counter_.Add(Op::kReduceScatter, static_cast<int64_t>(dst.nbytes()));
    if (accumulate) {
      dst.add_(full);
    } else {
      dst.copy_(full);
    }
    return std::make_unique<DonePending>();
  }
  int64_t ReduceScratchBytes(int64_t /*full_bytes*/) const override { return 0; }
  bool NeedsScratch(const at::Tensor& /*full*/, const at::Tensor& /*dst*/,
                    bool /*accumulate*/) const override {
    return false;
  }

  std::unique_ptr<Pending> AllReduce(const at::Tensor& tensor, OpTag /*tag*/) override {
    counter_.Add(Op::kAllReduce, static_cast<int64_t>(tensor.nbytes()));
    return std::make_unique<DonePending>();
  }

  void Broadcast(const at::Tensor& tensor, int64_t /*root*/, OpTag /*tag*/) override {
    counter_.Add(Op::kBroadcast, static_cast<int64_t>(tensor.nbytes()));
  }

  std::vector<std::string> AllGatherText(const std::string& text) override { return {text}; }

  std::map<std::string, OpCount> Counts() const override { return counter_.ByName(); }
  void ResetCounts() override { counter_.Reset(); }
  void Close() override {}

 private:
  OpCounter counter_;
};

}  // namespace

std::unique_ptr<Collectives> MakeSelfCollectives() { return std::make_unique<SelfCollectives>(); }

}  // namespace shoal::comm
