#include "shoal/base/check.h"

#include <execinfo.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace shoal::internal {

void CheckFailed(const char* file, int line, const char* condition, std::string_view detail) {
  const char* rank = std::getenv("RANK");  // diagnosis only: the process is about to end
  std::fprintf(stderr, "[shoal r%s F] %s:%d: check failed: %s %.*s\n", rank == nullptr ? "?" : rank, file, line,
               condition, static_cast<int>(detail.size()), detail.data());
  void* frames[64];
  const int num_frames = backtrace(frames, 64);
  backtrace_symbols_fd(frames, num_frames, STDERR_FILENO);
  std::abort();
}

}  // namespace shoal::internal
