// TraceRange: named begin/end marks around work, for a profiler that the program plugs in (NVTX,
// torch's record_function). Without one a range costs one atomic load.
//
// The hook, like the log sink, belongs to the process: a profiler watches all of it.
//
// Thread-safety: everything here is safe from any thread. A range begins and ends on one thread.
#pragma once

#include <string_view>

namespace shoal {

// Called on the thread of the range; ranges of one thread nest. Must not throw.
class TraceHook {
 public:
  virtual ~TraceHook() = default;
  virtual void Begin(std::string_view name) = 0;
  virtual void End() = 0;
};

// Installs `hook` (null: none) for ranges that begin from now on and returns the one before. Not
// owned: a hook must outlive every range that began with it.
TraceHook* SetTraceHook(TraceHook* hook);

// Marks its own lifetime. `name` need only live during construction.
class TraceRange {
 public:
  explicit TraceRange(std::string_view name);
  ~TraceRange() {
    if (hook_ != nullptr) hook_->End();
  }

  TraceRange(const TraceRange&) = delete;
  TraceRange& operator=(const TraceRange&) = delete;

 private:
  TraceHook* const hook_;  // the hook that saw Begin also sees End
};

}  // namespace shoal
