#include "shoal/base/trace.h"

#include <atomic>
#include <string_view>

namespace shoal {
namespace {

std::atomic<TraceHook*>& Hook() {
  static std::atomic<TraceHook*> hook{nullptr};
  return hook;
}

}  // namespace

TraceHook* SetTraceHook(TraceHook* hook) {
  return Hook().exchange(hook, std::memory_order_acq_rel);
}

TraceRange::TraceRange(std::string_view name) : hook_(Hook().load(std::memory_order_acquire)) {
  if (hook_ != nullptr) hook_->Begin(name);
}

}  // namespace shoal
