#include "shoal/base/log.h"

#include <fmt/format.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "shoal/base/env.h"
#include "shoal/base/fork.h"

namespace shoal {
namespace {

constexpr std::array<std::string_view, 4> kLevelNames = {"debug", "info", "warning", "error"};

LogLevel LevelFromEnv() {
  const std::optional<std::string> name = ReadEnv(EnvVar::kLogLevel);
  const std::optional<LogLevel> level = name ? ParseLogLevel(*name) : std::nullopt;
  return level.value_or(LogLevel::kWarning);
}

void WriteToStderr(LogLevel level, std::string_view room, std::string_view message) {
  static const LogLevel lowest = LevelFromEnv();
  static const std::string rank = RankForMessages();
  if (level < lowest) return;
  constexpr std::string_view kLetters = "DIWE";
  // One call, so that lines of several ranks on one terminal stay whole.
  const std::string line = fmt::format("[shoal r{} {} {}] {}\n", rank,
                                       kLetters[static_cast<size_t>(level)], room, message);
  std::fwrite(line.data(), 1, line.size(), stderr);
}

// The sink and the mutex that makes calls to it take turns. Remade in a forked child, where the
// mutex may be locked by a thread that does not exist; the parent's copy is left alone.
struct SinkState {
  ProcessStamp stamp;
  std::mutex mutex;
  LogSink sink;  // empty: the default
};

SinkState& Sink() {
  static std::atomic<SinkState*> state{new SinkState};
  SinkState* current = state.load(std::memory_order_acquire);
  if (current->stamp.IsCurrent()) return *current;
  auto* fresh = new SinkState;
  fresh->sink = current->sink;
  if (state.compare_exchange_strong(current, fresh, std::memory_order_acq_rel)) return *fresh;
  delete fresh;
  return *current;
}

}  // namespace

std::string_view LogLevelName(LogLevel level) { return kLevelNames[static_cast<size_t>(level)]; }

std::optional<LogLevel> ParseLogLevel(std::string_view name) {
  for (size_t i = 0; i < kLevelNames.size(); ++i) {
    if (kLevelNames[i] == name) return static_cast<LogLevel>(i);
  }
  return std::nullopt;
}

void SetLogSink(LogSink sink) {
  SinkState& state = Sink();
  const std::lock_guard<std::mutex> lock(state.mutex);
  state.sink = std::move(sink);
}

void Log(LogLevel level, std::string_view room, std::string_view message) {
  SinkState& state = Sink();
  const std::lock_guard<std::mutex> lock(state.mutex);
  if (state.sink) {
    state.sink(level, room, message);
  } else {
    WriteToStderr(level, room, message);
  }
}

}  // namespace shoal
