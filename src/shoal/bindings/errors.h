// The one place where Status becomes a Python exception.
//
//   Status code         Python class (all derive from shoal.ShoalError(RuntimeError))
//   InvalidArgument     InvalidArgumentError (also ValueError); in config: ConfigError
//   Timeout             CollectiveTimeout
//   Unsupported         UnsupportedError
//   any other           in ckpt: CheckpointError; else ShoalError
//
// Thread-safety: callers hold the GIL when an exception crosses into Python; throwing needs none.
#pragma once

#include <nanobind/nanobind.h>

#include <exception>
#include <string>
#include <utility>

#include "shoal/base/status.h"

namespace shoal::bindings {

// Which area raises: it chooses between classes for the same code.
enum class Area {
  kGeneral,     // engine, mesh, optimizer
  kConfig,      // every failure is a ConfigError (a ValueError)
  kCheckpoint,  // every failure but InvalidArgument and Unsupported is a CheckpointError
};

// Carries a Status through C++ frames to the translator registered by BindErrors.
class StatusException : public std::exception {
 public:
  explicit StatusException(Status status, Area area = Area::kGeneral)
      : status_(std::move(status)), area_(area), text_(status_.ToString()) {}
  const Status& status() const { return status_; }
  Area area() const { return area_; }
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  Status status_;
  Area area_;
  std::string text_;
};

inline void ThrowIfError(const Status& status, Area area = Area::kGeneral) {
  if (!status.ok()) throw StatusException(status, area);
}

template <typename T>
T ValueOrThrow(Result<T> result, Area area = Area::kGeneral) {
  if (!result.ok()) throw StatusException(result.status(), area);
  return std::move(result).value();
}

// Creates the exception classes in `m` and registers the translator.
void BindErrors(nanobind::module_& m);

}  // namespace shoal::bindings
