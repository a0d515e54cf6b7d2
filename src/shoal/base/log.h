// Log: one line to one sink.
//
// The sink is the only state here that belongs to the process: where diagnostics go is the
// program's choice, not an engine's. The default sink writes "[shoal r3 W ckpt] message" to stderr
// (rank from RANK, level D, I, W or E, room) from the level in SHOAL_LOG_LEVEL on ("warning" if
// unset). Logging never takes Python's GIL.
//
// Thread-safety: everything here is safe from any thread. After fork the child logs to the same
// sink.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

namespace shoal {

// How much a line matters. Numeric values grow with importance.
enum class LogLevel : int8_t {
  kDebug = 0,    // For those who develop Shoal.
  kInfo = 1,     // What was decided: plans, sizes, resumed steps.
  kWarning = 2,  // Works, but a user would want to know.
  kError = 3,    // Failed, and no caller is left to be told by a Status.
};

// "debug", "info", "warning", "error".
std::string_view LogLevelName(LogLevel level);
std::optional<LogLevel> ParseLogLevel(std::string_view name);

// Receives level, room ("ckpt") and message (no newline at the end). Called by one thread at a
// time. Must not throw, log or set the sink. A sink decides for itself which levels it wants.
using LogSink =
    std::function<void(LogLevel level, std::string_view room, std::string_view message)>;

// Replaces the sink; an empty one restores the default. Once it returns the old sink is no longer
// called.
void SetLogSink(LogSink sink);

// Hands one line to the sink. Format before: `Log(LogLevel::kInfo, "ckpt", fmt::format(...))`.
void Log(LogLevel level, std::string_view room, std::string_view message);

// Lets every n-th call through, the first included. Belongs to whoever logs, as a member:
// `if (slow_.ShouldLog()) Log(...)`. With n = 0 only the first call passes ("once").
class EveryN {
 public:
  // @pre n >= 0.
  explicit EveryN(int64_t n) : n_(n) {}

  bool ShouldLog() {
    const int64_t count = count_.fetch_add(1, std::memory_order_relaxed);
    return n_ == 0 ? count == 0 : count % n_ == 0;
  }

  // Calls so far, let through or not.
  int64_t count() const { return count_.load(std::memory_order_relaxed); }

 private:
  const int64_t n_;
  std::atomic<int64_t> count_{0};
};

}  // namespace shoal
