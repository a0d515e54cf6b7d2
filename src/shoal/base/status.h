// Status and Result<T>: how every fallible function below the language border reports failure.
//
// Goals: one small vocabulary type that is in every public header; messages that name operation,
// argument, rule and value; no exceptions below the border (they are made once, in
// bindings/errors.cc). Non-goals: error payloads, stack traces. Rejected: absl::Status (a large
// dependency for one type), std::expected (C++23).
//
// Text form: "[relayout] axis "dp" has size 6, not divisible by 4 (mesh dp=6,tp=2)": the operation
// in brackets, the message, then context added on the way out, outermost last.
//
// Thread-safety: values; const access from several threads is safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "shoal/base/check.h"

namespace shoal {

// Why an operation failed. The numeric values are part of the C ABI (shoal_status) and never
// change.
enum class StatusCode : int32_t {
  kOk = 0,               // No failure.
  kInvalidArgument = 1,  // The caller passed something that can never work.
  kNotFound = 2,         // A named thing (file, tensor, key) does not exist.
  kCorruption = 3,       // Stored bytes are not what they must be.
  kIoError = 4,          // The operating system refused or failed an I/O operation.
  kUnsupported = 5,      // Legal, but not implemented or not available on this machine.
  kOutOfMemory = 6,      // An allocation failed.
  kTimeout = 7,          // A peer or device did not answer in the configured time.
  kCancelled = 8,        // The operation was given up because another one failed.
  kInternal = 9,  // A broken invariant of Shoal's that could be reported instead of aborting.
};

// "InvalidArgument", "NotFound", ...
std::string_view StatusCodeName(StatusCode code);

// The outcome of an operation without a value. An ok Status costs one null pointer.
class [[nodiscard]] Status {
 public:
  // Success.
  Status() = default;

  // A failure of `operation` (a short name such as "relayout"; may be empty). @pre code != kOk.
  Status(StatusCode code, std::string_view operation, std::string_view message);

  static Status InvalidArgument(std::string_view operation, std::string_view message) {
    return Status(StatusCode::kInvalidArgument, operation, message);
  }
  static Status NotFound(std::string_view operation, std::string_view message) {
    return Status(StatusCode::kNotFound, operation, message);
  }
  static Status Corruption(std::string_view operation, std::string_view message) {
    return Status(StatusCode::kCorruption, operation, message);
  }
  static Status IoError(std::string_view operation, std::string_view message) {
    return Status(StatusCode::kIoError, operation, message);
  }
  static Status Unsupported(std::string_view operation, std::string_view message) {
    return Status(StatusCode::kUnsupported, operation, message);
  }
  static Status OutOfMemory(std::string_view operation, std::string_view message) {
    return Status(StatusCode::kOutOfMemory, operation, message);
  }
  static Status Timeout(std::string_view operation, std::string_view message) {
    return Status(StatusCode::kTimeout, operation, message);
  }
  static Status Cancelled(std::string_view operation, std::string_view message) {
    return Status(StatusCode::kCancelled, operation, message);
  }
  static Status Internal(std::string_view operation, std::string_view message) {
    return Status(StatusCode::kInternal, operation, message);
  }

  bool ok() const { return state_ == nullptr; }
  StatusCode code() const { return ok() ? StatusCode::kOk : state_->code; }
  // Empty for an ok status.
  const std::string& operation() const;
  // Without operation and context. Empty for an ok status.
  const std::string& message() const;

  // Adds what the caller was doing: `.WithContext("reading shard 3 of 8")`. An ok status stays ok.
  Status WithContext(std::string_view context) const&;
  Status WithContext(std::string_view context) &&;

  // "ok", or "[operation] message (context 1; context 2)".
  std::string ToString() const;

  friend bool operator==(const Status& a, const Status& b);

 private:
  struct State {
    StatusCode code;
    std::string operation;
    std::string message;
    std::string context;  // joined by "; "
  };
  std::shared_ptr<const State> state_;  // immutable, so copies may share it
};

// A value, or the Status that says why there is none. `Result<T>` converts implicitly from both.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}         // NOLINT(google-explicit-constructor)
  Result(Status status) : status_(std::move(status)) {  // NOLINT(google-explicit-constructor)
    SHOAL_CHECK(!status_.ok());
  }

  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }

  // @pre ok(). Breaking it aborts with the status' text.
  const T& value() const& {
    RequireOk();
    return *value_;
  }
  T& value() & {
    RequireOk();
    return *value_;
  }
  // By value, so that `for (auto& x : *F())` and `auto& x = F().value()` do not dangle.
  T value() && {
    RequireOk();
    return *std::move(value_);
  }
  const T& operator*() const& { return value(); }
  T& operator*() & { return value(); }
  T operator*() && { return std::move(*this).value(); }
  const T* operator->() const { return &value(); }
  T* operator->() { return &value(); }

 private:
  void RequireOk() const {
    if (!ok()) internal::CheckFailed(__FILE__, __LINE__, "Result::ok()", status_.ToString());
  }

  Status status_;
  std::optional<T> value_;
};

}  // namespace shoal

#define SHOAL_STATUS_CONCAT_INNER(a, b) a##b
#define SHOAL_STATUS_CONCAT(a, b) SHOAL_STATUS_CONCAT_INNER(a, b)

// Returns the status of `expr` from the enclosing function unless it is ok.
#define SHOAL_RETURN_IF_ERROR(expr)                \
  do {                                             \
    ::shoal::Status shoal_status_ = (expr);        \
    if (!shoal_status_.ok()) return shoal_status_; \
  } while (false)

// `SHOAL_ASSIGN_OR_RETURN(auto x, F());` declares x, or returns F()'s status.
// NOLINTBEGIN(bugprone-macro-parentheses): a declaration cannot stand in parentheses.
#define SHOAL_ASSIGN_OR_RETURN(lhs, expr) \
  SHOAL_ASSIGN_OR_RETURN_IMPL(SHOAL_STATUS_CONCAT(shoal_result_, __LINE__), lhs, expr)
#define SHOAL_ASSIGN_OR_RETURN_IMPL(result, lhs, expr) \
  auto result = (expr);                                \
  if (!result.ok()) return result.status();            \
  lhs = std::move(result).value()
// NOLINTEND(bugprone-macro-parentheses)
