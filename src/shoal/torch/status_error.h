// StatusError: a Status on its way through frames that only exceptions cross (autograd's engine,
// module hooks). bindings/errors.cc turns it into the Python class of its code; C++ users catch it
// as std::runtime_error.
#pragma once

#include <stdexcept>
#include <string_view>
#include <utility>

#include "shoal/base/status.h"

namespace shoal {

class StatusError : public std::runtime_error {
 public:
  explicit StatusError(Status status)
      : std::runtime_error(status.ToString()), status_(std::move(status)) {}
  const Status& status() const { return status_; }

 private:
  Status status_;
};

[[noreturn]] inline void Throw(Status status) { throw StatusError(std::move(status)); }

inline void ThrowIfError(const Status& status) {
  if (!status.ok()) throw StatusError(status);
}

template <typename T>
T ValueOrThrow(Result<T> result) {
  if (!result.ok()) throw StatusError(result.status());
  return std::move(result).value();
}

}  // namespace shoal
