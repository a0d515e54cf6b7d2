#include "shoal/base/check.h"

#include <execinfo.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "shoal/base/env.h"

namespace shoal::internal {

void CheckFailed(const char* file, int line, const char* condition, std::string_view detail) {
  const std::string rank = RankForMessages();
  std::fprintf(stderr, "[shoal r%s F] %s:%d: check failed: %s %.*s\n", rank.c_str(), file, line,
               condition, static_cast<int>(detail.size()), detail.data());
  void* frames[64];
  const int num_frames = backtrace(frames, 64);
  backtrace_symbols_fd(frames, num_frames, STDERR_FILENO);
  std::abort();
}

}  // namespace shoal::internal
