// SHOAL_CHECK: invariants of Shoal's own. A failed check is a bug of ours, never a user's mistake:
// it prints rank, place, condition and stack to stderr and aborts. User mistakes are Status values
// (status.h).
//
// Thread-safety: safe from any thread.
#pragma once

#include <string_view>

namespace shoal::internal {

[[noreturn]] void CheckFailed(const char* file, int line, const char* condition,
                              std::string_view detail = {});

}  // namespace shoal::internal

// Aborts unless `condition` holds; `detail` (optional, anything convertible to string_view) is
// printed.
#define SHOAL_CHECK(condition, ...)                                                              \
  do {                                                                                           \
    if (!(condition)) [[unlikely]]                                                               \
      ::shoal::internal::CheckFailed(__FILE__, __LINE__, #condition __VA_OPT__(, ) __VA_ARGS__); \
  } while (false)

#ifdef NDEBUG
#define SHOAL_DCHECK(condition, ...) \
  do {                               \
    (void)sizeof((condition));       \
  } while (false)
#else
#define SHOAL_DCHECK(condition, ...) SHOAL_CHECK(condition __VA_OPT__(, ) __VA_ARGS__)
#endif
